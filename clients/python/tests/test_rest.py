# SPDX-License-Identifier: Apache-2.0
"""The REST interface, by methods that are made from the server's description."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from callboard import ProblemError, Rest, UnreachableError
from tests.conftest import MakeClient, StartServer
from tests.server import Server
from tests.shim import CONFIG, Shim, application, ask, nodes, register

PARTITION = "default"
# What only a server of a cluster, and one that shows the past, has to tell.
ELSEWHERE = {"cluster", "cluster_config", "flight"}


@pytest.fixture
async def busy(serve: StartServer, connect: MakeClient) -> Server:
    """A server with a node, an application that runs, and an ask that waits."""
    server, shim = await serve(), Shim()
    client = connect(server.grpc)
    await register(client, shim)
    await nodes(client, 1, 100)
    # A name that is no part of a path as it is.
    await application(client, "app/1 ü?")
    await ask(client, "app/1 ü?", "k1", 80)
    await ask(client, "app/1 ü?", "k2", 80)
    await client.flush()
    await shim.until("placed", lambda: "k1" in shim.placed)
    return server


async def test_what_there_is_can_be_read_and_told(busy: Server) -> None:
    async with Rest(busy.http) as rest:
        waited = await rest.api.application_wait(PARTITION, "app/1 ü?", for_="running", timeout="10s")
        assert waited["met"]
        why = await rest.api.application_explain(PARTITION, "app/1 ü?", remedies=False)
        assert [group["reason"]["code"] for group in why["waiting"]] != []
        assert (await rest.ws.queues(PARTITION))["queuename"] == "root"
        assert [node["nodeID"] for node in await rest.ws.nodes(PARTITION)] == ["n0"]
        assert [manager["rmID"] for manager in await rest.si.rms()] == ["rm-1"]
        assert (await rest.si.rm("rm-1"))["state"] == "Running"
        await rest.api.queue_drain(PARTITION, "root.a", {"reason": "for a while"})
        door = await rest.api.queue(PARTITION, "root.a")
        assert "for a while" in str(door)
        await rest.api.queue_resume(PARTITION, "root.a", {})
        plan = await rest.api.plan(CONFIG + "          - name: b\n", rm="rm-1")
        assert not plan["unchanged"]
        assert (await rest.ws.validate_conf(CONFIG))["allowed"]
        lines = [line async for line in rest.api.events(count=3)]
        assert len(lines) == 4
        assert "next" in lines[-1]


async def test_what_is_wrong_is_told(busy: Server) -> None:
    async with Rest(busy.http) as rest:
        with pytest.raises(ProblemError, match="nobody") as caught:
            await rest.si.rm("nobody")
        assert caught.value.status == 404
        with pytest.raises(ProblemError) as caught:
            await rest.ws.queues("nowhere")
        assert caught.value.status in (400, 404)
        with pytest.raises(ProblemError):
            _ = [line async for line in rest.api.usage_history("nowhere", by="user")]
    await busy.kill()
    async with Rest(busy.http) as rest:
        with pytest.raises(UnreachableError):
            await rest.ws.queues(PARTITION)
        with pytest.raises(UnreachableError):
            _ = [line async for line in rest.api.events()]


async def test_every_method_without_more_arguments_is_answered(busy: Server) -> None:
    called = 0
    async with Rest(busy.http) as rest:
        for door in (rest.api, rest.ws, rest.si):
            for name, method in inspect.getmembers(door, inspect.iscoroutinefunction):
                needed = [p.name for p in inspect.signature(method).parameters.values() if p.default is p.empty]
                if name.startswith("_") or not set(needed) <= {"partition"}:
                    continue
                if name in ELSEWHERE:
                    with pytest.raises(ProblemError, match="404"):
                        await method()
                    continue
                await method(*[PARTITION] * len(needed))
                called += 1
    assert called >= 20


async def test_what_is_no_scheduler_is_told() -> None:
    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"<html>busy</html>"
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(page, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Rest(f"http://127.0.0.1:{port}") as rest:
        with pytest.raises(UnreachableError, match="is no scheduler"):
            await rest.ws.partitions()
