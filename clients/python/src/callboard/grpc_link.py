# SPDX-License-Identifier: Apache-2.0
"""A connection over gRPC: the stream of calls, and that of requests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

import grpc
import grpc.aio

from callboard.link import BEAT, OPENING, Fault, Kind, Link, Opened, number_in, other_epoch, patience
from callboard.options import TLS, Options, read_token
from callboard.proto.callboard.v1 import callboard_pb2 as ext
from callboard.proto.callboard.v1.callboard_pb2_grpc import SchedulerExtensionStub
from callboard.proto.si.v1 import si_pb2 as si
from callboard.proto.si.v1.si_pb2_grpc import SchedulerStub

# Largest message that is taken in: the server gathers at most a few megabytes in one.
LARGEST = 64 << 20

CHANNEL: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", LARGEST),
    ("grpc.max_send_message_length", LARGEST),
    ("grpc.keepalive_time_ms", int(1000 * BEAT)),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Each attempt is one of its own: the session decides when the next one is made, and what goes out again.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
)

KINDS = {
    grpc.StatusCode.NOT_FOUND: Kind.GONE,
    grpc.StatusCode.FAILED_PRECONDITION: Kind.GONE,
    grpc.StatusCode.OUT_OF_RANGE: Kind.GONE,
    grpc.StatusCode.INVALID_ARGUMENT: Kind.GONE,
    grpc.StatusCode.ABORTED: Kind.REPLACED,
    grpc.StatusCode.UNAUTHENTICATED: Kind.REFUSED,
    grpc.StatusCode.PERMISSION_DENIED: Kind.REFUSED,
    grpc.StatusCode.UNIMPLEMENTED: Kind.REFUSED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Kind.REFUSED,
}

T = TypeVar("T")
M = TypeVar("M")
A = TypeVar("A")


def _credentials(tls: TLS) -> grpc.ChannelCredentials:
    def read(file: Path | str | None) -> bytes | None:
        return None if file is None else Path(file).read_bytes()

    # Left to itself the library takes a list of its own instead of the system's.
    roots = tls.ca if tls.ca is not None else ssl.get_default_verify_paths().cafile
    return grpc.ssl_channel_credentials(read(roots), read(tls.key), read(tls.certificate))


async def _told(answer: Awaitable[T]) -> T:
    """What the server answers, or what went wrong as a fault."""
    try:
        return await answer
    except grpc.aio.AioRpcError as error:
        raise _fault(error.code(), error.details()) from None
    except asyncio.CancelledError:
        # The library says so too when the stream was cancelled, and not whoever waits for it.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise Fault(Kind.BROKEN, "the connection was closed") from None
    except (grpc.aio.UsageError, asyncio.InvalidStateError) as error:
        raise Fault(Kind.BROKEN, str(error)) from None


def _fault(code: grpc.StatusCode, details: str | None) -> Fault:
    refused = None
    if code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED):
        refused = number_in(details or "")
    too_large = code is grpc.StatusCode.RESOURCE_EXHAUSTED
    return Fault(KINDS.get(code, Kind.BROKEN), f"{code.name}: {details}", refused_request=refused, too_large=too_large)


class GrpcLink(Link):
    """See `Link`."""

    def __init__(self, options: Options, addr: str) -> None:
        self._metadata: tuple[tuple[str, str], ...] = ()
        try:
            if options.token_file is not None:
                self._metadata = (("authorization", f"Bearer {read_token(options.token_file)}"),)
            credentials = None if options.tls is None else _credentials(options.tls)
        except (OSError, ValueError) as error:
            # It may be written anew at this moment.
            raise Fault(Kind.BROKEN, str(error)) from None
        silence = int(1000 * patience(options.addrs))
        settings: list[tuple[str, int | str]] = [
            *CHANNEL,
            ("grpc.keepalive_timeout_ms", silence),
            # A minute, if left to itself, which counts where it is the longer one.
            ("grpc.http2.ping_timeout_ms", silence),
        ]
        if options.tls is None or credentials is None:
            self._channel = grpc.aio.insecure_channel(addr, options=settings)
        else:
            if options.tls.server_name is not None:
                settings.append(("grpc.ssl_target_name_override", options.tls.server_name))
            self._channel = grpc.aio.secure_channel(addr, credentials, options=settings)
        self._extension = SchedulerExtensionStub(self._channel)
        # One message at a time may be handed to the library.
        self._writing = asyncio.Lock()
        self._calls: grpc.aio.StreamStreamCall[ext.Reply, ext.Call] | None = None
        self._acks: grpc.aio.StreamStreamCall[ext.Request, ext.Ack] | None = None

    async def _hello(self, hello: ext.Hello) -> ext.Ready:
        self._calls = self._extension.Callbacks(metadata=self._metadata)
        # Where it fails, the reason is where calls come from.
        await _written(self._calls, ext.Reply(hello=hello))
        return await self._ready()

    async def _ready(self) -> ext.Ready:
        call = await self.receive()
        if call.WhichOneof("call") != "ready":
            raise Fault(Kind.BROKEN, "the server does not begin with Ready")
        return call.ready

    async def _requests(self, rm: str, epoch: int) -> ext.Ack:
        self._acks = self._extension.Requests(metadata=self._metadata)
        await _written(self._acks, ext.Request(rm_id=rm, epoch=epoch))
        ack = await self.acknowledgement()
        if ack.epoch != epoch:
            raise other_epoch(epoch, ack.epoch)
        return ack

    async def register(self, request: si.RegisterResourceManagerRequest) -> Opened:
        try:
            async with asyncio.timeout(OPENING):
                # Before the registration, so that no response of the new session is missed, and none of an old one comes.
                await self._hello(ext.Hello(rm_id=request.rmID, batch_predicates=True, several_predicates=True))
            # A registration takes apart what was there before: that takes its time.
            response = await _told(SchedulerStub(self._channel).RegisterResourceManager(request, metadata=self._metadata))
            async with asyncio.timeout(OPENING):
                ready = await self._ready()
                return Opened(ready.epoch, response, await self._requests(request.rmID, ready.epoch))
        except TimeoutError:
            raise Fault(Kind.BROKEN, f"the streams were not opened within {OPENING:.0f} s") from None

    async def resume(self, rm: str, epoch: int, after: int) -> ext.Ack:
        try:
            async with asyncio.timeout(OPENING):
                hello = ext.Hello(rm_id=rm, batch_predicates=True, several_predicates=True, resume=True, resume_after=after)
                ready = await self._hello(hello)
                if ready.epoch != epoch:
                    raise other_epoch(epoch, ready.epoch)
                try:
                    return await self._requests(rm, epoch)
                except Fault as fault:
                    if fault.kind is Kind.REPLACED:
                        # Between the two streams somebody else has registered.
                        raise Fault(Kind.GONE, str(fault)) from None
                    raise
        except TimeoutError:
            raise Fault(Kind.BROKEN, f"the streams were not opened within {OPENING:.0f} s") from None

    async def receive(self) -> ext.Call:
        assert self._calls is not None
        call = await _told(self._calls.read())
        if isinstance(call, ext.Call):
            return call
        raise await _end(self._calls)

    async def acknowledgement(self) -> ext.Ack:
        assert self._acks is not None
        ack = await _told(self._acks.read())
        if isinstance(ack, ext.Ack):
            return ack
        raise await _end(self._acks)

    async def send(self, request: ext.Request) -> None:
        assert self._acks is not None
        if not await _written(self._acks, request):
            raise await _end(self._acks)

    async def reply(self, reply: ext.Reply) -> None:
        assert self._calls is not None
        async with self._writing:
            await _written(self._calls, reply)

    async def unregister(self, rm: str) -> None:
        await _told(self._extension.Unregister(ext.UnregisterRequest(rm_id=rm), metadata=self._metadata))

    async def close(self) -> None:
        await self._channel.close()


async def _written(stream: grpc.aio.StreamStreamCall[M, A], message: M) -> bool:
    """Hands a message to a stream; false where that has ended."""
    try:
        await _told(stream.write(message))
    except Fault:
        return False
    return True


async def _end(stream: grpc.aio.StreamStreamCall[M, A]) -> Fault:
    """Why a stream has ended."""
    return _fault(await stream.code(), await stream.details())
