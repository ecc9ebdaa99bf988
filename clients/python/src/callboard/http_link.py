# SPDX-License-Identifier: Apache-2.0
"""A connection over HTTP: the stream of lines, and numbered requests one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from callboard import web
from callboard.door import quote
from callboard.link import BEAT, OPENING, Fault, Kind, Link, Opened, other_epoch, patience
from callboard.options import Options
from callboard.outbox import USUAL_BYTES, USUAL_ITEMS
from callboard.proto.callboard.v1 import callboard_pb2 as ext
from callboard.proto.si.v1 import si_pb2 as si

KINDS: dict[int, Kind] = {
    httpx.codes.BAD_REQUEST: Kind.GONE,
    httpx.codes.NOT_FOUND: Kind.GONE,
    httpx.codes.CONFLICT: Kind.GONE,
    httpx.codes.GONE: Kind.GONE,
    httpx.codes.UNPROCESSABLE_ENTITY: Kind.GONE,
    httpx.codes.UNAUTHORIZED: Kind.REFUSED,
    httpx.codes.FORBIDDEN: Kind.REFUSED,
    httpx.codes.REQUEST_ENTITY_TOO_LARGE: Kind.REFUSED,
    httpx.codes.UNSUPPORTED_MEDIA_TYPE: Kind.REFUSED,
}
# Where requests of each kind go.
PATHS = {"application": "applications", "node": "nodes", "allocation": "allocations", "heartbeat": "heartbeat"}
# Names of lines, and of the calls that they are over gRPC, where these differ.
LINES = {"containerState": "container_state", "preemptionPredicates": "preemption_predicates", "stateDump": "state_dump"}
# An empty line comes every ten seconds.
SILENCE = 30.0


class HttpLink(Link):
    """See `Link`."""

    # Nothing else tells the server that a line was handled.
    answers_confirm = True

    def __init__(self, options: Options, base: str) -> None:
        try:
            self._http = web.client(base, options.tls, options.token_file)
        except (OSError, ValueError) as error:
            # A certificate may be written anew at this moment.
            raise Fault(Kind.BROKEN, f"{type(error).__name__}: {error}") from None
        self._patience = patience(options.addrs)
        self._epoch = 0
        self._rm = ""
        self._stream: httpx.Response | None = None
        self._lines: AsyncIterator[str] | None = None
        self._acks: asyncio.Queue[ext.Ack] = asyncio.Queue()
        self._answers: list[dict[str, object]] = []
        self._answering = asyncio.Lock()

    async def _ask(self, verb: str, path: str, content: object = None, **more: Any) -> httpx.Response:
        """Asks; whatever the answer is."""
        try:
            return await self._http.request(verb, path, json=content, **more)
        except (httpx.HTTPError, httpx.StreamError, OSError, ValueError, RuntimeError) as error:
            # A RuntimeError says that the connection was given up meanwhile.
            raise Fault(Kind.BROKEN, f"{type(error).__name__}: {error}") from None

    async def _done(self, verb: str, path: str, content: object = None, **more: Any) -> Any:
        """What the server answers where it does what it was asked."""
        answer = await self._ask(verb, path, content, **more)
        if not answer.is_success:
            raise _fault(answer)
        try:
            return answer.json()
        except ValueError:
            raise Fault(Kind.BROKEN, f"what answers at {answer.url} is no scheduler: {answer.text[:80]!r}") from None

    async def register(self, request: si.RegisterResourceManagerRequest) -> Opened:
        self._rm = f"/si/v1/rm/{quote(request.rmID)}"
        given = {"predicates": "several", "stateDump": "true"}
        # A registration takes apart what was there before: that takes its time.
        told = await self._done("POST", "/si/v1/rm", MessageToDict(request), params=given, timeout=None)
        with _told_by_a_scheduler():
            response = ParseDict(told, si.RegisterResourceManagerResponse(), ignore_unknown_fields=True)
        epoch = await self._known()
        return Opened(epoch, response, await self._open(epoch, 0))

    async def resume(self, rm: str, epoch: int, after: int) -> ext.Ack:
        self._rm = f"/si/v1/rm/{quote(rm)}"
        known = await self._known()
        if known != epoch:
            raise other_epoch(epoch, known)
        return await self._open(epoch, after)

    async def _known(self) -> int:
        """Epoch of the session that the server has."""
        about = await self._done("GET", self._rm)
        with _told_by_a_scheduler():
            return int(about["epoch"])

    async def _open(self, epoch: int, after: int) -> ext.Ack:
        self._epoch = epoch
        request = self._http.build_request(
            "GET", f"{self._rm}/stream", params={"after": after}, timeout=httpx.Timeout(OPENING, read=SILENCE)
        )
        try:
            self._stream = await self._http.send(request, stream=True)
            if not self._stream.is_success:
                await self._stream.aread()
                raise _fault(self._stream)
        except (httpx.HTTPError, httpx.StreamError, OSError, ValueError) as error:
            raise Fault(Kind.BROKEN, f"{type(error).__name__}: {error}") from None
        self._lines = self._stream.aiter_lines()
        # How far its requests are, it tells with the first one that is sent again.
        return _ack(epoch, 0)

    async def receive(self) -> ext.Call:
        assert self._lines is not None
        try:
            async for line in self._lines:
                if line.strip():
                    with _told_by_a_scheduler():
                        return _call(json.loads(line))
        except (httpx.HTTPError, httpx.StreamError, ValueError) as error:
            raise Fault(Kind.BROKEN, f"{type(error).__name__}: {error}") from None
        raise Fault(Kind.BROKEN, "the stream has ended")

    async def acknowledgement(self) -> ext.Ack:
        return await self._acks.get()

    async def send(self, request: ext.Request) -> None:
        kind = request.WhichOneof("request")
        if kind == "configuration":
            answer = await self._numbered(request.sequence, "PUT", "configuration", MessageToDict(request.configuration))
            if answer.status_code in (httpx.codes.BAD_REQUEST, httpx.codes.FORBIDDEN):
                # Where the refusal did not use up the number, something else does, which is kept as any other request is
                # until it is answered: sent from here, and the answer lost, it would let the configuration pass for applied.
                if "X-Callboard-Ack" not in answer.headers:
                    raise Fault(Kind.BROKEN, _detail(answer), refused_request=request.sequence)
                refused = ext.Refused(sequence=request.sequence, reason=_detail(answer))
                self._acks.put_nowait(_ack(self._epoch, request.sequence, refused))
                return
        else:
            assert kind is not None
            nodes = list(request.heartbeat.node_ids)
            content = {"nodes": nodes} if kind == "heartbeat" else MessageToDict(getattr(request, kind))
            answer = await self._numbered(request.sequence, "POST", PATHS[kind], content, request.traceparent)
            too_large = answer.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE
            if too_large or answer.status_code == httpx.codes.BAD_REQUEST:
                raise Fault(Kind.BROKEN, _detail(answer), refused_request=request.sequence, too_large=too_large)
        if not answer.is_success:
            raise _fault(answer)
        with _told_by_a_scheduler():
            self._acks.put_nowait(_ack(self._epoch, int(answer.headers["X-Callboard-Ack"])))

    async def _numbered(self, sequence: int, verb: str, path: str, content: object, traceparent: str = "") -> httpx.Response:
        """Sends a request until there is room for it."""
        headers = {"X-Callboard-Seq": str(sequence), "X-Callboard-Epoch": str(self._epoch)}
        if traceparent:
            headers["traceparent"] = traceparent
        # It is answered when it was applied, which may wait for a directory or a disk.
        patience = httpx.Timeout(OPENING, read=None)
        wait = 0.01
        while True:
            answer = await self._ask(verb, f"{self._rm}/{path}", content, headers=headers, timeout=patience)
            if answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
                return answer
            await asyncio.sleep(wait)
            wait = min(2 * wait, 1.0)

    async def reply(self, reply: ext.Reply) -> None:
        content: dict[str, object] = {"id": reply.id}
        match reply.WhichOneof("reply"):
            case "predicates":
                content |= {"success": not reply.predicates.error, "message": reply.predicates.error}
            case "predicates_batch":
                content["errors"] = list(reply.predicates_batch.errors)
            case "predicates_several":
                content["answers"] = [{"errors": list(answer.errors)} for answer in reply.predicates_several.answers]
            case "preemption_predicates":
                content |= {"success": reply.preemption_predicates.success, "index": reply.preemption_predicates.index}
            case "state_dump" if reply.state_dump.error:
                content["error"] = reply.state_dump.error
            case "state_dump":
                content["json"] = reply.state_dump.json
            case _:
                # Done is not told: the next answer says so too.
                return
        self._answers.append(content)
        async with self._answering:
            # What gathered while others were on their way goes together.
            together, self._answers = self._answers, []
            if together:
                with contextlib.suppress(Fault):
                    await self._ask("POST", f"{self._rm}/answers", together)

    async def watch(self) -> None:
        # A process that hangs keeps its connections. Whatever this one answers, it is there.
        while True:
            await self._ask("GET", "/livez", timeout=self._patience)
            await asyncio.sleep(BEAT)

    async def unregister(self, rm: str) -> None:
        await self._done("DELETE", f"/si/v1/rm/{quote(rm)}")

    async def close(self) -> None:
        if self._stream is not None:
            await self._stream.aclose()
        await self._http.aclose()


@contextlib.contextmanager
def _told_by_a_scheduler() -> Iterator[None]:
    """What lacks something comes from whatever is in front of the server, for now: nothing that ends a session."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError, ParseError) as error:
        raise Fault(Kind.BROKEN, f"what answers is no scheduler: {type(error).__name__}: {error}") from None


def _call(line: dict[str, Any]) -> ext.Call:
    """A line, as it would come over gRPC."""
    if "closing" in line:
        status, detail = line["closing"].get("status"), line["closing"].get("detail")
        raise Fault(Kind.REPLACED if status == httpx.codes.CONFLICT else Kind.BROKEN, f"{status}: {detail}")
    call = ext.Call(sequence=int(line.pop("seq")), id=int(line.pop("id", 0)))
    # Exactly one is left.
    [(name, told)] = line.items()
    match name:
        case "events":
            told = {"events": told.get("records", [])}
        case "predicatesBatch":
            name, told = "predicates_batch", _batch(told)
        case "predicatesSeveral":
            name, told = "predicates_several", {"asks": [_batch(ask) for ask in told.get("asks", [])]}
    ParseDict({LINES.get(name, name): told}, call, ignore_unknown_fields=True)
    return call


def _batch(told: dict[str, Any]) -> dict[str, Any]:
    return {"nodeIds" if key == "nodeIDs" else key: value for key, value in told.items()}


def _ack(epoch: int, sequence: int, *refused: ext.Refused) -> ext.Ack:
    # Only one request is on its way at a time.
    return ext.Ack(epoch=epoch, sequence=sequence, credits=1, max_items=USUAL_ITEMS, max_bytes=USUAL_BYTES, refused=refused)


def _detail(answer: httpx.Response) -> str:
    """Why the server says no, in its words."""
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text.strip() or answer.reason_phrase


def _fault(answer: httpx.Response) -> Fault:
    return Fault(KINDS.get(answer.status_code, Kind.BROKEN), f"{answer.status_code}: {_detail(answer)}")
