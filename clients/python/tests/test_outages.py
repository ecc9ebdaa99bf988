# SPDX-License-Identifier: Apache-2.0
"""What a client does about lost connections and servers that die."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest

from callboard import TLS, Client, LostError, Options, Rest
from callboard.grpc_link import GrpcLink
from callboard.http_link import HttpLink
from callboard.link import Fault, Kind
from callboard.proto.callboard.v1 import callboard_pb2 as ext
from callboard.proto.si.v1 import si_pb2 as si
from tests.conftest import MakeClient, StartProxy, StartServer
from tests.proxy import Proxy
from tests.shim import LIMIT, UNCONSTRAINED, Shim, application, ask, nodes, register, release, through

CUTS = int(os.environ.get("CALLBOARD_TEST_CUTS", "200"))


# The HTTP door takes one request at a time: load there waits for it.
QUEUES = {"grpc": 100_000, "http": 100}


class Load:
    """Applications and their asks, one after the other; out of order an ask would be rejected."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._stop = False
        self.asked: list[str] = []
        self.applications = 0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while not self._stop:
            n = len(self.asked)
            if n % 10 == 0:
                await application(self._client, f"app-{n // 10}")
                self.applications += 1
            await ask(self._client, f"app-{n // 10}", f"k{n}", 10)
            self.asked.append(f"k{n}")
            await asyncio.sleep(0.0005)

    async def stop(self) -> None:
        self._stop = True
        await self._task


async def settled(client: Client, shim: Shim, load: Load) -> None:
    """Everything that was asked for is there once, and nothing else."""
    await load.stop()
    async with asyncio.timeout(LIMIT):
        await client.flush()
    await shim.until("placed", lambda: len(shim.order) >= len(load.asked))
    assert sorted(shim.order) == sorted(load.asked)
    assert len(shim.applications) == load.applications
    shim.unharmed()


async def cut_under_load(client: Client, shim: Shim, proxy: Proxy, cuts: int) -> None:
    await register(client, shim, UNCONSTRAINED)
    await nodes(client, 8, 1 << 40)
    load = Load(client)
    async with asyncio.timeout(6 * LIMIT):
        while proxy.cuts < cuts:
            await asyncio.sleep(random.random() / 10)
            proxy.cut()
    await settled(client, shim, load)
    assert len(shim.nodes) == 8
    print(f"{proxy.cuts} cuts, {len(load.asked)} asks, {client.stats}")


async def test_cut_connections_lose_and_double_nothing(
    door: str, serve: StartServer, carry: StartProxy, connect: MakeClient
) -> None:
    proxy = await carry((await serve()).addr(door))
    await cut_under_load(
        connect(through(door, proxy.addr), request_queue=QUEUES[door]), Shim(), proxy, CUTS if door == "grpc" else CUTS // 4
    )


async def test_a_backlog_goes_out_after_a_long_outage(
    door: str, serve: StartServer, carry: StartProxy, connect: MakeClient
) -> None:
    server, shim = await serve(), Shim()
    proxy = await carry(server.addr(door))
    client = connect("127.0.0.1:1", through(door, proxy.addr), request_queue=30_000)
    await register(client, shim, UNCONSTRAINED)
    await nodes(client, 8, 1 << 40)
    await application(client, "app")
    await client.flush()
    proxy.to("127.0.0.1:1")
    proxy.cut()
    count = 5_000 if door == "grpc" else 500
    for n in range(count):
        await ask(client, "app", f"k{n}", 10)
    proxy.to(server.addr(door))
    async with asyncio.timeout(LIMIT):
        await client.flush()
    await shim.until("placed", lambda: len(shim.order) == count)
    shim.unharmed()


async def test_a_killed_server_goes_on_from_its_log(
    door: str, serve: StartServer, carry: StartProxy, connect: MakeClient, tmp_path: Path
) -> None:
    data = ("--data", str(tmp_path / "data"))
    server, shim = await serve(*data), Shim()
    proxy = await carry(server.addr(door))
    client = connect(through(door, proxy.addr), request_queue=QUEUES[door])
    await register(client, shim, UNCONSTRAINED)
    await nodes(client, 8, 1 << 40)
    load = Load(client)
    for turn in range(1, 4):
        more = len(shim.order) + 100
        await shim.until(f"placed before kill {turn}", lambda: len(shim.order) >= more)  # noqa: B023
        await server.kill()
        server = await serve(*data)
        proxy.to(server.addr(door))
    more = len(shim.order) + 100
    await shim.until("placed after the last kill", lambda: len(shim.order) >= more)
    await settled(client, shim, load)
    assert len(shim.nodes) == 8
    assert client.stats.reconnects >= 3
    print(f"{len(load.asked)} asks, {client.stats}")


async def test_a_server_that_hangs_is_left_for_the_next_address(
    door: str, serve: StartServer, carry: StartProxy, connect: MakeClient
) -> None:
    server, shim = await serve(), Shim()
    hangs, good = await carry(server.addr(door)), await carry(server.addr(door))
    addrs = through(door, hangs.addr), through(door, good.addr)
    client = connect(*addrs)
    await register(client, shim, UNCONSTRAINED)
    await nodes(client, 1, 100)
    await application(client, "app")
    await client.flush()
    hangs.hang()
    # Long before the system would give the connection up.
    async with asyncio.timeout(25):
        await ask(client, "app", "k0", 10)
        await shim.until("placed", lambda: shim.order == ["k0"])
        await client.unregister()
    async with asyncio.timeout(25):
        await register(connect(*addrs), Shim(), UNCONSTRAINED)
    shim.unharmed()


async def test_a_session_that_is_gone_is_told(door: str, serve: StartServer, carry: StartProxy, connect: MakeClient) -> None:
    first, second, shim = await serve(), await serve(), Shim()
    proxy = await carry(first.addr(door))
    told: asyncio.Queue[LostError] = asyncio.Queue()

    async def lost(error: LostError) -> None:
        await told.put(error)

    client = connect(through(door, proxy.addr), on_lost=lost)
    await register(client, shim)
    await nodes(client, 1, 100)
    await shim.until("node", lambda: len(shim.nodes) == 1)
    proxy.to(second.addr(door))
    proxy.cut()
    async with asyncio.timeout(LIMIT):
        assert "not registered" in str(await told.get())
    with pytest.raises(LostError):
        await nodes(client, 1, 100)


async def test_a_session_that_somebody_else_took_is_told(door: str, serve: StartServer, connect: MakeClient) -> None:
    server, shim = await serve(), Shim()
    told: asyncio.Queue[LostError] = asyncio.Queue()
    client = connect(server.url(door), on_lost=told.put_nowait)
    await register(client, shim)
    other = connect(server.url(door))
    await register(other, Shim())
    async with asyncio.timeout(LIMIT):
        assert "epoch" in str(await told.get())
    # The other one has not noticed.
    await nodes(other, 1, 100)
    await other.flush()


async def test_a_lost_session_ends_the_process_unless_the_program_says_otherwise(serve: StartServer, tmp_path: Path) -> None:
    server = await serve()
    program = tmp_path / "program.py"
    program.write_text(
        "import asyncio, sys\n"
        "from callboard import Client, Options, ResourceManagerCallback, si\n"
        "async def main():\n"
        "    client = Client(Options(addrs=[sys.argv[1]]))\n"
        "    request = si.RegisterResourceManagerRequest(rmID='rm-1', policyGroup='queues')\n"
        "    await client.register_resource_manager(request, ResourceManagerCallback())\n"
        "    print('registered', flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, program, server.grpc, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(LIMIT):
        assert await process.stdout.readline() == b"registered\n"
        client = Client(Options(addrs=[server.grpc]))
        await register(client, Shim())
        assert await process.wait() == 1
        await client.stop()


async def test_unregistering_is_not_losing(door: str, serve: StartServer, connect: MakeClient) -> None:
    client = connect((await serve()).url(door))
    for _ in range(20):
        await register(client, Shim())
        await client.unregister()


async def test_lines_that_a_server_does_not_have_end_the_session(
    door: str, serve: StartServer, connect: MakeClient, tmp_path: Path
) -> None:
    data = ("--data", str(tmp_path / "data"))
    server = await serve(*data)
    await register(connect(server.url(door), on_lost=lambda _: None), Shim())
    async with Rest(server.http) as rest:
        epoch = (await rest.si.rm("rm-1"))["epoch"]
    await server.kill()
    server = await serve(*data)
    options = Options(addrs=[server.url(door)])
    link = GrpcLink(options, server.grpc) if door == "grpc" else HttpLink(options, server.http)
    with pytest.raises(Fault, match=r"OUT_OF_RANGE|410") as caught:
        await link.resume("rm-1", epoch, 1_000_000)
    await link.close()
    # What a client does about it: see the session that is gone.
    assert caught.value.kind is Kind.GONE


@pytest.mark.parametrize("body", [b"<html>maintenance</html>", b"{}", b"[]"])
async def test_what_answers_in_place_of_a_server_breaks_a_connection_and_no_session(body: bytes) -> None:
    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(page, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    link = HttpLink(Options(addrs=[url]), url)
    async with server:
        for asked in (link.resume("rm-1", 1, 0), link.send(ext.Request(sequence=1, node=si.NodeRequest()))):
            with pytest.raises(Fault, match="no scheduler") as caught:
                await asked
            assert caught.value.kind is Kind.BROKEN
    await link.close()


async def test_a_certificate_that_is_written_anew_breaks_no_session(door: str, tmp_path: Path) -> None:
    options = Options(addrs=["https://127.0.0.1:1"], tls=TLS(ca=tmp_path / "ca.pem"))
    with pytest.raises(Fault) as caught:
        GrpcLink(options, "127.0.0.1:1") if door == "grpc" else HttpLink(options, "https://127.0.0.1:1")
    assert caught.value.kind is Kind.BROKEN


async def test_a_session_that_is_gone_is_told_again(
    door: str, serve: StartServer, carry: StartProxy, connect: MakeClient
) -> None:
    first, second, shim = await serve(), await serve(), Shim()
    proxy = await carry(first.addr(door))
    replayed = asyncio.Event()

    class Counted:
        def add(self, name: str, _: int) -> None:
            if name == "replays":
                replayed.set()

    client = connect(through(door, proxy.addr), replay=True, metrics=Counted())
    await register(client, shim)
    await nodes(client, 3, 100)
    await application(client, "app")
    for n in range(30):
        await ask(client, "app", f"k{n}", 10)
    # What has no room yet is asked for again, what was given back is not.
    await ask(client, "app", "waits", 20)
    await shim.until("placed", lambda: len(shim.placed) == 30)
    node = shim.placed["k5"]
    beside = next(key for key, there in shim.placed.items() if there == node and key != "k5")
    await release(client, "app", "k5")
    await client.flush()
    proxy.to(second.addr(door))
    proxy.cut()
    async with asyncio.timeout(LIMIT):
        await replayed.wait()
    shim.unharmed()
    assert (len(shim.nodes), shim.applications) == (3, ["app"])
    assert "waits" not in shim.placed
    # Both servers agree on where things are: room for it comes only on the node where two were given back.
    await release(client, "app", beside)
    await shim.until("the one that waited", lambda: "waits" in shim.placed)
    assert shim.placed["waits"] == node
    shim.unharmed()


async def test_load_goes_on_over_sessions_that_are_gone(
    door: str, serve: StartServer, carry: StartProxy, connect: MakeClient
) -> None:
    server, shim = await serve(), Shim()
    proxy = await carry(server.addr(door))
    client = connect(through(door, proxy.addr), replay=True, request_queue=QUEUES[door])
    await register(client, shim, UNCONSTRAINED)
    await nodes(client, 8, 1 << 40)
    load = Load(client)
    for _ in range(3):
        more = len(shim.placed) + 50
        await shim.until("placed", lambda: len(shim.placed) >= more)  # noqa: B023
        # Without a log a killed server knows nothing.
        await server.kill()
        server = await serve()
        proxy.to(server.addr(door))
    more = len(shim.placed) + 50
    await shim.until("placed after the last kill", lambda: len(shim.placed) >= more)
    await load.stop()
    async with asyncio.timeout(LIMIT):
        await client.flush()
    await shim.until("all of it", lambda: shim.placed.keys() >= set(load.asked))
    assert not shim.rejected
    assert (len(shim.nodes), len(shim.applications)) == (8, load.applications)
    assert client.stats.replays >= 3
    async with Rest(server.http) as rest:
        there = await rest.ws.nodes("default")
    # The server that came last knows each of them, where the shim knows it.
    assert {one["allocationKey"]: node["nodeID"] for node in there for one in node["allocations"]} == shim.placed
