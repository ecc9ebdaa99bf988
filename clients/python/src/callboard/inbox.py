# SPDX-License-Identifier: Apache-2.0
"""What the server tells and asks, on its way to the shim."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from callboard.callback import ResourceManagerCallback
from callboard.link import Link
from callboard.proto.callboard.v1 import callboard_pb2 as ext
from callboard.proto.si.v1 import si_pb2 as si

if TYPE_CHECKING:
    from callboard.session import Session

Delivery = tuple[ext.Call, Link]


class Inbox:
    """Holds responses in their order until the shim has handled them, and has questions answered side by side."""

    def __init__(self, session: Session, callback: ResourceManagerCallback) -> None:
        self._session = session
        self._callback = callback
        self._responses: deque[Delivery] = deque()
        # One of them is with the shim.
        self._handling = False
        # Questions, and how many responses came before each.
        self._questions: asyncio.Queue[tuple[ext.Call, Link, int]] = asyncio.Queue(1024)
        # How many the shim is asked about at a time.
        self._asking = asyncio.Semaphore(session.options.predicate_workers)
        self._one_way: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue(session.options.event_queue)
        self._came = self._handled = 0
        # The last line that came, whatever it carries.
        self.received = 0

    def start(self) -> None:
        """Begins to hand out."""
        self._session.start(self._handle)
        self._session.start(self._tell_one_way)
        for _ in range(self._session.options.predicate_workers):
            self._session.start(self._answer_questions)

    async def take(self, call: ext.Call, link: Link) -> None:
        """Sorts what came over a connection."""
        match call.WhichOneof("call"):
            case "allocation" | "application" | "node":
                self._responses.append((call, link))
                self._came += 1
                self._session.news.tell()
            case "predicates" | "predicates_batch" | "predicates_several" | "preemption_predicates":
                await self._questions.put((call, link, self._came))
            case "events":
                self._later(lambda: self._callback.send_event(call.events.events))
            case "container_state":
                self._later(lambda: self._callback.update_container_scheduling_state(call.container_state))
            case "state_dump":
                self._session.start(self._dump, call, link)
        self.received = max(self.received, call.sequence)

    def _later(self, tell: Callable[[], Awaitable[None]]) -> None:
        """Has something told that no answer is wanted for, where there is room."""
        try:
            self._one_way.put_nowait(tell)
        except asyncio.QueueFull:
            self._session.counters.add("events_dropped")

    async def _tell_one_way(self) -> None:
        while self._session.over is None:
            tell = await self._one_way.get()
            try:
                await tell()
            except Exception:
                self._session.options.logger.warning("the shim could not handle an event", exc_info=True)
            self._session.counters.add("events")

    async def _dump(self, call: ext.Call, link: Link) -> None:
        try:
            told = ext.StateDumpReply(json=await self._callback.get_state_dump())
        except Exception as error:
            told = ext.StateDumpReply(error=_text(error))
        await link.reply(ext.Reply(id=call.id, state_dump=told))

    # Responses.

    async def _handle(self) -> None:
        """Hands responses to the shim, one after the other."""
        session = self._session
        while True:
            await session.news.until(lambda: bool(self._responses) or session.over is not None)
            if session.over is not None:
                return
            call, link = self._responses.popleft()
            self._handling = True
            done = ext.Done()
            if session.replay is not None:
                session.replay.known.responded(call, session.replay.is_expected)
                session.replay.swallow(call)
            try:
                await self._tell(call)
            except Exception as error:
                session.options.logger.warning("the shim could not handle a response", exc_info=True)
                done.error = _text(error)
            await link.reply(ext.Reply(id=call.id, done=done))
            self._handling = False
            self._handled += 1
            session.counters.add("callbacks")
            session.news.tell()

    async def _tell(self, call: ext.Call) -> None:
        """Hands a response to the shim, unless nothing of it is left."""
        match call.WhichOneof("call"):
            case "allocation" if call.allocation.new or call.allocation.released or call.allocation.rejectedAllocations:
                await self._callback.update_allocation(call.allocation)
            case "application" if call.application.accepted or call.application.rejected or call.application.updated:
                await self._callback.update_application(call.application)
            case "node" if call.node.accepted or call.node.rejected:
                await self._callback.update_node(call.node)

    async def handled(self) -> None:
        """Waits until the shim has handled everything that came."""
        await self._session.news.until(lambda: self._session.over is not None or not (self._responses or self._handling))

    # Questions.

    async def _answer_questions(self) -> None:
        while self._session.over is None:
            call, link, after = await self._questions.get()
            if link.answers_confirm:
                await self._session.news.until(lambda: self._session.over is not None or self._handled >= after)  # noqa: B023
            await link.reply(await self._answer(call))

    async def _answer(self, call: ext.Call) -> ext.Reply:
        reply = ext.Reply(id=call.id)
        self._session.counters.add("questions")
        match call.WhichOneof("call"):
            case "predicates":
                reply.predicates.error = await self._refusal(call.predicates)
            case "predicates_batch":
                reply.predicates_batch.CopyFrom(await self._batch(call.predicates_batch))
            case "predicates_several":
                asks = call.predicates_several.asks
                reply.predicates_several.answers.extend(await asyncio.gather(*map(self._batch, asks)))
            case "preemption_predicates":
                self._session.counters.add("predicates")
                reply.preemption_predicates.SetInParent()
                try:
                    answer = await self._callback.preemption_predicates(call.preemption_predicates)
                except Exception:
                    self._session.options.logger.warning("the shim could not answer a question", exc_info=True)
                    answer = None
                if answer is not None:
                    reply.preemption_predicates.CopyFrom(answer)
        return reply

    async def _batch(self, batch: ext.PredicatesBatchArgs) -> ext.PredicatesBatchReply:
        """Looks at the nodes of one ask."""
        told = ext.PredicatesBatchReply()
        for node in batch.node_ids:
            args = si.PredicatesArgs(allocationKey=batch.allocation_key, nodeID=node, allocate=batch.allocate)
            refused = await self._refusal(args)
            told.errors.append(refused)
            if not refused and batch.first_only:
                break
        return told

    async def _refusal(self, args: si.PredicatesArgs) -> str:
        """Empty where the ask fits on the node, else why it does not."""
        self._session.counters.add("predicates")
        try:
            async with self._asking:
                return await self._callback.predicates(args) or ""
        except Exception as error:
            self._session.options.logger.warning("the shim could not answer a question", exc_info=True)
            return _text(error)


def _text(error: Exception) -> str:
    """Never empty."""
    return str(error) or type(error).__name__
