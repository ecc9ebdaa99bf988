# SPDX-License-Identifier: Apache-2.0
"""The client: a scheduler at the other end of a connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from callboard.callback import ResourceManagerCallback
from callboard.errors import CallboardError, NotRegisteredError, RefusedError, StoppedError
from callboard.grpc_link import GrpcLink
from callboard.http_link import HttpLink
from callboard.link import Link
from callboard.options import Options
from callboard.outbox import Part, allocation_parts, application_parts, node_parts, traced
from callboard.proto.callboard.v1 import callboard_pb2 as ext
from callboard.proto.si.v1 import si_pb2 as si
from callboard.rest import Rest
from callboard.session import Session
from callboard.stats import Counters, Stats

# How long `Client.stop` waits until what was handed in is applied, in seconds.
STOPPING = 5.0


class Client:
    """Puts a shim on a Callboard server, within one event loop.

        async with Client(Options(addrs=["127.0.0.1:9090"])) as client:
            await client.register_resource_manager(request, callback)
            await client.update_node(…)

    Requests are applied in the order of the calls, over all kinds. What the server has not acknowledged is sent again after a
    lost connection, and applied once; responses go on behind the last one that came.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._counters = Counters(options.metrics)
        self._session: Session | None = None
        self._stopped = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()

    @property
    def stats(self) -> Stats:
        """What was counted."""
        return self._counters.stats()

    async def register_resource_manager(
        self, request: si.RegisterResourceManagerRequest, callback: ResourceManagerCallback
    ) -> si.RegisterResourceManagerResponse:
        """Begins a session, after the one before has ended. Waits for a server to be there, up to `Options.connect_timeout`.

        Raises `RefusedError`, for a configuration that is refused, and `UnreachableError`.
        """
        if self._stopped:
            raise StoppedError
        before = self._session
        session = Session(self._options, self._counters, self._connect, request, callback)
        self._session = session
        if before is not None:
            before.end(CallboardError("the resource manager was registered again"))
            await before.ended()
        try:
            return await session.begin()
        except BaseException as error:
            session.end(error if isinstance(error, CallboardError) else NotRegisteredError())
            raise

    def _connect(self, addr: str) -> Link:
        return HttpLink(self._options, addr) if "://" in addr else GrpcLink(self._options, addr)

    def _current(self) -> Session:
        if self._stopped:
            raise StoppedError
        if self._session is None:
            raise NotRegisteredError
        return self._session

    async def update_allocation(self, request: si.AllocationRequest, *, traceparent: str = "") -> None:
        """Hands in asks, allocations and releases. Returns when the request has its place in the order, which it waits for
        while too many items wait already. What is wrong with an item comes back as a response. `traceparent` names the
        trace that it is part of, as W3C has it (docs/traces.md).

        Raises `TooLargeError` for an item that the server takes in no request.
        """
        session = self._current()
        await session.submit(traced(allocation_parts(request, session.outbox), traceparent))

    async def update_application(self, request: si.ApplicationRequest, *, traceparent: str = "") -> None:
        """Hands in applications; see `update_allocation`."""
        session = self._current()
        await session.submit(traced(application_parts(request, session.outbox), traceparent))

    async def update_node(self, request: si.NodeRequest, *, traceparent: str = "") -> None:
        """Hands in nodes; see `update_allocation`."""
        session = self._current()
        await session.submit(traced(node_parts(request, session.outbox), traceparent))

    async def update_configuration(self, request: si.UpdateConfigurationRequest) -> None:
        """Changes the configuration behind all requests before it, and waits for the outcome.

        Raises `RefusedError` where it was refused: the old one stays.
        """
        await self._current().configure(request)

    async def heartbeat(self, nodes: Iterable[str]) -> None:
        """Tells that these nodes are alive (the resource journal of the server). From the first one on that names a
        node that is registered, only nodes that are named count as alive."""
        alive = ext.Heartbeat(node_ids=nodes)
        await self._current().submit([Part(ext.Request(heartbeat=alive), len(alive.node_ids))])

    async def validate(self, configuration: str) -> None:
        """Asks the HTTP door of `Options.web` whether it would take a configuration; nothing is changed.

        Raises `RefusedError`, which says what is wrong with it.
        """
        if self._options.web is None:
            raise ValueError("validate asks the HTTP door: set Options.web")
        async with Rest(self._options.web, tls=self._options.tls, token_file=self._options.token_file) as rest:
            told = await rest.ws.validate_conf(configuration)
        if not told["allowed"]:
            raise RefusedError(told.get("reason") or "the server gives no reason")

    async def flush(self) -> None:
        """Waits until everything that was handed in is applied."""
        await self._current().flush()

    async def unregister(self) -> None:
        """Ends the session at the server: its partitions go, with everything in them."""
        await self._current().unregister()

    async def stop(self) -> None:
        """Ends the client. The server keeps the session for a while (`rm.pauseTimeout`), in which nothing new is placed: a
        shim that starts anew begins another one. Waits up to five seconds until what was handed in is applied."""
        session = self._session
        if self._stopped:
            return
        if session is not None and session.over is None and session.epoch != 0:
            with contextlib.suppress(TimeoutError, CallboardError):
                async with asyncio.timeout(STOPPING):
                    await session.flush()
        self._stopped = True
        if session is not None:
            session.end(StoppedError())
            await session.ended()
