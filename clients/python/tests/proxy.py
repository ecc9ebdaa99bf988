# SPDX-License-Identifier: Apache-2.0
"""Carries connections to a server, and cuts them when a test wants that."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Self


class Proxy:
    """Listens on a port of its own."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._open: set[asyncio.StreamWriter] = set()
        self._carriers: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._flows = asyncio.Event()
        self._flows.set()
        self.addr = ""
        self.cuts = 0

    @classmethod
    async def start(cls, target: str) -> Self:
        proxy = cls(target)
        proxy._listener = await asyncio.start_server(proxy._accept, "127.0.0.1", 0)
        proxy.addr = f"127.0.0.1:{proxy._listener.sockets[0].getsockname()[1]}"
        return proxy

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._listener is not None
        if not self._listener.is_serving():
            writer.transport.abort()
            return
        # Known at once, so that nothing is left when the proxy stops while the server is not reached yet.
        self._open.add(writer)
        carrier = asyncio.create_task(self._carry(reader, writer))
        self._carriers.add(carrier)
        carrier.add_done_callback(self._carriers.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._target.rpartition(":")
        ends = [writer]
        try:
            with contextlib.suppress(OSError):
                from_server, to_server = await asyncio.open_connection(host, int(port))
                ends.append(to_server)
                self._open.add(to_server)
                await asyncio.gather(self._copy(reader, to_server), self._copy(from_server, writer))
        finally:
            for end in ends:
                end.close()
            self._open -= set(ends)

    def cut(self) -> None:
        """Closes what is open, in the middle of whatever is on its way."""
        self.cuts += len(self._open) // 2
        for writer in self._open:
            connection = writer.get_extra_info("socket")
            if connection is not None and connection.fileno() >= 0:
                # What is in its buffers is lost.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        self._open.clear()

    def to(self, target: str) -> None:
        """Carries new connections to another address."""
        self._target = target

    def hang(self) -> None:
        """Keeps connections, takes new ones, and carries nothing any more, as a process that is stopped."""
        self._flows.clear()

    async def stop(self) -> None:
        assert self._listener is not None
        self._listener.close()
        self.cut()
        for task in self._carriers:
            task.cancel()
        if self._carriers:
            await asyncio.wait(self._carriers)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
