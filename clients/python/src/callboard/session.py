# SPDX-License-Identifier: Apache-2.0
"""What a registration began. One after the other, a client has several."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from callboard.callback import ResourceManagerCallback
from callboard.errors import CallboardError, LostError, NotRegisteredError, RefusedError, UnreachableError
from callboard.inbox import Inbox
from callboard.link import Fault, Kind, Link, Opened
from callboard.news import News
from callboard.options import Options
from callboard.outbox import Outbox, Part
from callboard.proto.callboard.v1 import callboard_pb2 as ext
from callboard.proto.si.v1 import si_pb2 as si
from callboard.replay import Replay
from callboard.stats import Counters

# Between two attempts, at first and at most, in seconds.
SHORTEST = 0.02
LONGEST = 2.0

P = ParamSpec("P")
T = TypeVar("T")


class Session:
    """Keeps one session connected until it is over."""

    def __init__(
        self,
        options: Options,
        counters: Counters,
        connect: Callable[[str], Link],
        request: si.RegisterResourceManagerRequest,
        callback: ResourceManagerCallback,
    ) -> None:
        self.options = options
        self.counters = counters
        self.connect = connect
        self.request = si.RegisterResourceManagerRequest()
        self.request.CopyFrom(request)
        self.news = News()
        self.outbox = Outbox()
        self.inbox = Inbox(self, callback)
        # The server's number of the session; 0 before it began.
        self.epoch = 0
        self.over: CallboardError | None = None
        self.replay = Replay(self) if options.replay else None
        # Calls take their places in the order in which they were made, also where they wait for room.
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._link: Link | None = None
        # Which address is tried first.
        self._first = 0

    async def begin(self) -> si.RegisterResourceManagerResponse:
        """Registers, and starts what the session needs."""
        link, response = await self.register(self.options.connect_timeout)
        self._link = link
        self.start(self._run, link)
        self.inbox.start()
        return response

    def start(self, work: Callable[P, Coroutine[Any, Any, None]], *arguments: P.args, **named: P.kwargs) -> None:
        """Has something done until the session is over."""
        task = asyncio.get_running_loop().create_task(self._guarded(work, *arguments, **named))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Callable[P, Coroutine[Any, Any, None]], *arguments: P.args, **named: P.kwargs) -> None:
        """Nothing of a session ends unseen, or the rest would wait for it."""
        try:
            await work(*arguments, **named)
        except Exception as error:
            self.options.logger.exception("%s: a part of the session failed", self.request.rmID)
            await self.lost(error)

    def end(self, error: CallboardError) -> None:
        """Makes every call fail with this error, and stops what runs."""
        if self.over is None:
            self.over = error
        self.outbox.abandon(error)
        self.news.tell()
        here = asyncio.current_task()
        for task in self._tasks:
            if task is not here:
                task.cancel()

    async def ended(self) -> None:
        """Waits until nothing of the session runs any more."""
        here = asyncio.current_task()
        running = [task for task in self._tasks if task is not here]
        if running:
            await asyncio.wait(running)
        if self._link is not None:
            await self._link.close()

    async def lost(self, why: Exception) -> None:
        """Ends a session that the server does not have any more."""
        if self.over is not None:
            return
        self.options.logger.error("%s: the session is lost: %s", self.request.rmID, why)
        error = LostError(f"the session is lost: {why}")
        error.__cause__ = why
        self.end(error)
        if self.options.on_lost is None:
            self.options.logger.critical("the process ends, so that the shim starts anew")
            logging.shutdown()
            # From within a task: an exception would end only that.
            os._exit(1)
        told = self.options.on_lost(error)
        if told is not None:
            await told

    # Requests.

    async def submit(self, parts: list[Part], outcome: asyncio.Future[None] | None = None) -> None:
        """Puts requests at the end of the queue, and waits while that is too long."""
        # A program that hands in one request after the other lets everything else run too.
        await asyncio.sleep(0)
        async with self._turn:
            await self.news.until(lambda: self.over is not None or self._has_room())
            self.put(parts, outcome)
            if self.replay is not None:
                for part in parts:
                    self.replay.known.requested(part.request)

    def _has_room(self) -> bool:
        return not self._replaying and self.outbox.items < self.options.request_queue

    @property
    def _replaying(self) -> bool:
        return self.replay is not None and self.replay.running

    def put(self, parts: list[Part], outcome: asyncio.Future[None] | None = None) -> None:
        """`submit` without waiting."""
        if self.over is not None:
            raise self.over
        if self.epoch == 0:
            raise NotRegisteredError
        for part in parts:
            self.outbox.add(part.request, part.items, outcome)
        self.news.tell()

    async def configure(self, request: si.UpdateConfigurationRequest) -> None:
        """Changes the configuration, and waits for the outcome."""
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self.submit([Part(ext.Request(configuration=request), 0)], outcome)
        try:
            async with asyncio.timeout(self.options.answer_timeout):
                await outcome
        except TimeoutError:
            text = f"the configuration was handed in, and not answered within {self.options.answer_timeout} s"
            raise UnreachableError(text) from None
        # A registration that is repeated brings what is in force.
        self.request.config = request.config
        self.request.extraConfig.clear()
        self.request.extraConfig.update(request.extraConfig)

    async def flush(self) -> None:
        """Waits until nothing is left to be acknowledged."""
        await self.news.until(lambda: self.over is not None or (self.epoch != 0 and not self._replaying and not self.outbox))
        if self.over is not None:
            raise self.over

    async def unregister(self) -> None:
        """Ends the session at the server, behind everything that was handed in, and here in any case."""
        try:
            await self.flush()
        finally:
            # Before the server does, or its streams would end as those of a session that is lost.
            self.end(NotRegisteredError())
            await self.ended()
        why: Fault | None = None
        for turn in range(len(self.options.addrs)):
            link = self.connect(self._addr(turn))
            try:
                return await _watched(link, link.unregister(self.request.rmID))
            except Fault as fault:
                if fault.kind is not Kind.BROKEN:
                    raise RefusedError(str(fault)) from None
                why = fault
            finally:
                await link.close()
        raise UnreachableError(f"no server of {', '.join(self.options.addrs)} answers: {why}")

    # Connections.

    async def register(self, patience: float) -> tuple[Link, si.RegisterResourceManagerResponse]:
        """Registers at the first server that is there."""
        loop = asyncio.get_running_loop()
        end = loop.time() + patience
        wait, turn = SHORTEST, 0
        while True:
            try:
                link, opened = await self._register(self._addr(turn))
            except Fault as fault:
                if fault.kind is not Kind.BROKEN:
                    raise RefusedError(str(fault)) from None
                if loop.time() > end:
                    text = f"no server of {', '.join(self.options.addrs)} answers: {fault}"
                    raise UnreachableError(text) from None
            else:
                self._first += turn
                self.epoch = opened.epoch
                self.inbox.received = 0
                self.outbox = Outbox()
                self.outbox.acknowledged(opened.ack)
                return link, opened.response
            turn += 1
            wait = await self._pause(wait, turn)

    def _addr(self, turn: int) -> str:
        return self.options.addrs[(self._first + turn) % len(self.options.addrs)]

    async def _register(self, addr: str) -> tuple[Link, Opened]:
        link = self.connect(addr)
        try:
            return link, await _watched(link, link.register(self.request))
        except BaseException:
            await link.close()
            raise

    async def _run(self, link: Link) -> None:
        """Keeps the session connected until it is over."""
        try:
            while True:
                why = await self._serve(link)
                await link.close()
                self._take_out_of_the_way(why)
                self.options.logger.info("%s: the connection is lost: %s", self.request.rmID, why)
                # Its server may hang, and would do so once more.
                self._first += 1
                self._link = link = await self._again(why)
        except Exception as error:
            await self.lost(error)

    def _take_out_of_the_way(self, why: Fault) -> None:
        """A request that the server does not take is cut into parts, or left out."""
        refused = why.refused_request
        if refused is None or (why.too_large and self.outbox.split(refused)):
            return
        if self.outbox.void(refused, RefusedError(str(why))):
            self.options.logger.error("%s: the server refuses a request, which is left out: %s", self.request.rmID, why)

    async def _again(self, why: Fault) -> Link:
        """Connects once more."""
        wait, turn = SHORTEST, 0
        while True:
            try:
                link = await self._resume(self._addr(turn))
            except Fault as fault:
                turn += 1
                if fault.kind is Kind.GONE:
                    # Another server may still have it.
                    if turn < len(self.options.addrs):
                        continue
                    if self.replay is None:
                        raise
                    return await self.replay.begin(fault)
                if wait == LONGEST:
                    self.options.logger.warning("%s: no connection, at first %s, now %s", self.request.rmID, why, fault)
            else:
                self._first += turn
                self.counters.add("reconnects")
                return link
            wait = await self._pause(wait, turn)

    async def _resume(self, addr: str) -> Link:
        """Goes on with the session at this server."""
        # What came and is not handled is not sent again.
        await self.inbox.handled()
        link = self.connect(addr)
        try:
            ack = await _watched(link, link.resume(self.request.rmID, self.epoch, self.inbox.received))
        except BaseException:
            await link.close()
            raise
        self.outbox.acknowledged(ack)
        self.outbox.reopened()
        self.news.tell()
        return link

    async def _pause(self, wait: float, turn: int) -> float:
        """Waits a little longer each time that all addresses were tried."""
        if turn % len(self.options.addrs) != 0:
            return wait
        await asyncio.sleep(wait / 2 + random.random() * wait)
        return min(2 * wait, LONGEST)

    async def _serve(self, link: Link) -> Fault:
        """Carries requests, acknowledgements and calls until the connection breaks; gives why it did."""
        loop = asyncio.get_running_loop()
        carriers = [loop.create_task(carry(link)) for carry in (self._acknowledge, self._receive, self._send, _watch)]
        try:
            await asyncio.wait(carriers, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in carriers:
                task.cancel()
            told = await asyncio.gather(*carriers, return_exceptions=True)
        for outcome in told:
            if isinstance(outcome, Exception) and not isinstance(outcome, Fault):
                raise outcome
        return next(outcome for outcome in told if isinstance(outcome, Fault))

    async def _receive(self, link: Link) -> None:
        while True:
            await self.inbox.take(await link.receive(), link)

    async def _acknowledge(self, link: Link) -> None:
        while True:
            self.outbox.acknowledged(await link.acknowledgement())
            self.news.tell()

    async def _send(self, link: Link) -> None:
        while True:
            await self.news.until(self.outbox.sendable)
            entry = self.outbox.next()
            self.counters.add("requests_resent" if entry.sent else "requests")
            entry.sent = True
            await link.send(entry.request)


async def _watch(link: Link) -> None:
    await link.watch()


async def _watched(link: Link, work: Coroutine[Any, Any, T]) -> T:
    """What comes of it, however long that takes, as long as the server is there."""
    loop = asyncio.get_running_loop()
    done, watch = loop.create_task(work), loop.create_task(link.watch())
    try:
        await asyncio.wait([done, watch], return_when=asyncio.FIRST_COMPLETED)
        if done.done():
            return await done
        await watch
        raise Fault(Kind.BROKEN, "the server is not watched any more")
    finally:
        done.cancel()
        watch.cancel()
        await asyncio.gather(done, watch, return_exceptions=True)
