# SPDX-License-Identifier: Apache-2.0
"""Servers, proxies and clients that end with their test."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
import pytest_asyncio

from callboard import Client, LostError, Options
from tests.proxy import Proxy
from tests.server import Server

# A proxy between programs and the web has no part in what happens on the loopback.
for name in ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy"):
    os.environ.pop(name, None)
    os.environ.pop(name.upper(), None)


@pytest_asyncio.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as ending:
        yield ending


StartServer = Callable[..., Awaitable[Server]]
StartProxy = Callable[[str], Awaitable[Proxy]]


@pytest.fixture(params=["grpc", "http"])
def door(request: pytest.FixtureRequest) -> str:
    """Which door of a server a test goes through."""
    return str(request.param)


class MakeClient(Protocol):
    def __call__(self, *addrs: str, **options: Any) -> Client: ...


@pytest.fixture
def serve(stack: AsyncExitStack, tmp_path: Path) -> StartServer:
    started = 0

    async def start(*arguments: str) -> Server:
        nonlocal started
        started += 1
        server = await Server.start(tmp_path / f"server-{started}.log", *arguments)
        stack.push_async_callback(server.kill)
        return server

    return start


@pytest.fixture
def carry(stack: AsyncExitStack) -> StartProxy:
    async def start(target: str) -> Proxy:
        proxy = await Proxy.start(target)
        stack.push_async_callback(proxy.stop)
        return proxy

    return start


@pytest.fixture
def connect(stack: AsyncExitStack) -> MakeClient:
    quiet = logging.getLogger("callboard.tests")
    quiet.setLevel(logging.CRITICAL)
    lost: list[LostError] = []

    def make(*addrs: str, **options: Any) -> Client:
        client = Client(Options(addrs=list(addrs), **{"logger": quiet, "on_lost": lost.append, **options}))
        stack.push_async_callback(client.stop)
        return client

    async def nothing_lost() -> None:
        assert not lost

    stack.push_async_callback(nothing_lost)
    return make
