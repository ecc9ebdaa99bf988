# SPDX-License-Identifier: Apache-2.0
"""What a client does while nothing goes wrong."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import httpx
import pytest

from callboard import (
    Client,
    NotRegisteredError,
    Options,
    RefusedError,
    StoppedError,
    TooLargeError,
    UnreachableError,
    si,
)
from tests.conftest import MakeClient, StartServer
from tests.shim import CONFIG, LIMIT, UNCONSTRAINED, Shim, application, ask, asking, memory, nodes, register


class Counted:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, name: str, n: int) -> None:
        self.counts[name] += n


async def test_an_ask_follows_its_application_and_responses_come_one_at_a_time(
    door: str, serve: StartServer, connect: MakeClient
) -> None:
    server, shim = await serve(), Shim()
    client = connect(server.url(door))
    await register(client, shim, UNCONSTRAINED)
    await nodes(client, 4, 1_000_000)
    count = 2_000
    for n in range(count):
        await application(client, f"app-{n}")
        await ask(client, f"app-{n}", f"k{n}", 10)
    await client.flush()
    await shim.until("placed", lambda: len(shim.placed) == count)
    shim.unharmed()
    assert len(shim.applications) == count
    assert len(shim.nodes) == 4


async def test_requests_are_part_of_their_traces(door: str, serve: StartServer, connect: MakeClient) -> None:
    trace, told = b"the shim's trace", asyncio.Event()

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        spans = b""
        while piece := await reader.read(1 << 16):
            spans += piece
            if trace in spans:
                told.set()
        writer.close()

    async with await asyncio.start_server(collect, "127.0.0.1", 0) as collector:
        port = collector.sockets[0].getsockname()[1]
        server, shim = await serve("--ephemeral", "--otlp-endpoint", f"http://127.0.0.1:{port}"), Shim()
        client = connect(server.url(door))
        await register(client, shim)
        await nodes(client, 1, 1_000)
        await application(client, "app")
        request = si.AllocationRequest(allocations=[asking("app", "k", 10)], rmID="rm-1")
        await client.update_allocation(request, traceparent=f"00-{trace.hex()}-00f067aa0ba902b7-01")
        async with asyncio.timeout(LIMIT):
            await told.wait()


async def test_predicates_events_configurations_and_counts(door: str, serve: StartServer, connect: MakeClient) -> None:
    server, shim, counted = await serve(), Shim(), Counted()
    client = connect(server.url(door), web=server.http, metrics=counted)

    async def only_n7(args: si.PredicatesArgs) -> str | None:
        if args.nodeID == "n7":
            return None
        if args.nodeID == "n3":
            raise RuntimeError("not this one")
        return "only n7 will do"

    shim.fits = only_n7
    await register(client, shim)
    await nodes(client, 10, 1_000)
    await application(client, "app")
    await ask(client, "app", "k", 10)
    await shim.until("placed", lambda: shim.placed.get("k") == "n7")
    await shim.until("events", lambda: shim.events > 0)

    def configuration(text: str) -> si.UpdateConfigurationRequest:
        return si.UpdateConfigurationRequest(rmID="rm-1", policyGroup="queues", config=text)

    with pytest.raises(RefusedError):
        await client.update_configuration(configuration("partitions: nonsense"))
    more = CONFIG + "          - name: b\n"
    await client.update_configuration(configuration(more))
    await client.validate(more)
    with pytest.raises(RefusedError):
        await client.validate("partitions: nonsense")
    await client.heartbeat(["n0", "n1"])
    await client.unregister()
    with pytest.raises(NotRegisteredError):
        await nodes(client, 1, 1)
    stats = client.stats
    assert stats.requests > 0
    assert stats.callbacks > 0
    assert stats.predicates == shim.asked == counted.counts["predicates"]


async def test_the_shim_has_its_part_in_state_dumps(door: str, serve: StartServer, connect: MakeClient) -> None:
    server = await serve()
    await register(connect(server.url(door)), Shim())
    async with httpx.AsyncClient(base_url=server.http, timeout=LIMIT) as web:
        dump = (await web.get("/debug/fullstatedump")).text
    assert "of the shim" in dump


async def test_what_is_larger_than_the_server_takes_goes_in_parts(door: str, serve: StartServer, connect: MakeClient) -> None:
    server, shim = await serve(), Shim()
    client = connect(server.url(door))
    await register(client, shim, {"rm.maxItems": "50", "rm.itemsInFlight": "20"})
    await nodes(client, 500, 1_000)
    await application(client, "app")
    asks = [asking("app", f"k{n}", 10) for n in range(300)]
    await client.update_allocation(si.AllocationRequest(rmID="rm-1", allocations=asks))
    await shim.until("placed", lambda: len(shim.placed) == 300 and len(shim.nodes) == 500)
    many = si.NodeInfo(
        nodeID="many",
        action=si.NodeInfo.ActionFromRM.CREATE,
        schedulableResource=memory(1),
        attributes={str(n): "x" for n in range(600)},
    )
    if door == "grpc":
        with pytest.raises(TooLargeError, match="the server takes at most"):
            await client.update_node(si.NodeRequest(nodes=[many]))
    else:
        # This door tells its limits only when something is beyond them: it is left out, and the next one comes.
        await client.update_node(si.NodeRequest(nodes=[many]))
    await application(client, "next")
    await shim.until("next", lambda: "next" in shim.applications)
    assert "many" not in shim.nodes
    shim.unharmed()


async def test_calls_that_wait_for_room_keep_their_order(door: str, serve: StartServer, connect: MakeClient) -> None:
    server, shim = await serve(), Shim()
    client = connect(server.url(door), request_queue=3)
    await register(client, shim, UNCONSTRAINED)
    await nodes(client, 1, 1_000_000)

    async def both(n: int) -> None:
        # Each call is made before the next one of these is begun.
        one = asyncio.create_task(application(client, f"app-{n}"))
        two = asyncio.create_task(ask(client, f"app-{n}", f"k{n}", 10))
        await asyncio.gather(one, two)

    async with asyncio.timeout(LIMIT):
        await asyncio.gather(*(both(n) for n in range(200)))
    await shim.until("placed", lambda: len(shim.placed) == 200)
    shim.unharmed()


async def test_bad_options_and_registrations_are_told_at_once(door: str, serve: StartServer, connect: MakeClient) -> None:
    with pytest.raises(ValueError, match="at least one server"):
        Options(addrs=[])
    with pytest.raises(ValueError, match="list of addresses"):
        Options(addrs="x:1")
    with pytest.raises(ValueError, match="predicate_workers is 0"):
        Options(addrs=["x:1"], predicate_workers=0)
    with pytest.raises(OSError, match="nowhere"):
        Options(addrs=["x:1"], token_file="/nowhere")
    server, shim = await serve(), Shim()
    client = connect("127.0.0.1:1", server.url(door))
    with pytest.raises(NotRegisteredError):
        await nodes(client, 1, 10)
    bad = si.RegisterResourceManagerRequest(rmID="rm-1", config="partitions: nonsense")
    with pytest.raises(RefusedError, match=r"INVALID_ARGUMENT|400"):
        await client.register_resource_manager(bad, shim)
    await register(client, shim)
    await nodes(client, 1, 10)
    await shim.until("node", lambda: len(shim.nodes) == 1)
    # Again: what was there is gone.
    await register(client, shim)
    await nodes(client, 1, 10)
    await shim.until("node", lambda: len(shim.nodes) == 2)
    await client.stop()
    with pytest.raises(StoppedError):
        await nodes(client, 1, 10)
    async with Client(Options(addrs=["127.0.0.1:1"], connect_timeout=0.001)) as nobody:
        with pytest.raises(UnreachableError, match=r"no server of 127\.0\.0\.1:1 answers"):
            await register(nobody, shim)


async def test_unconstrained_asks_share_calls(door: str, serve: StartServer, connect: MakeClient) -> None:
    server, shim = await serve(), Shim()

    async def not_on_every_third(args: si.PredicatesArgs) -> str | None:
        return "not on every third" if int(args.nodeID[1:]) % 3 == 0 else None

    shim.fits = not_on_every_third
    client = connect(server.url(door))
    await register(client, shim, UNCONSTRAINED)
    await nodes(client, 30, 10_000)
    await application(client, "app")
    count = 1_000
    asks = [asking("app", f"k{n}", 10) for n in range(count)]
    await client.update_allocation(si.AllocationRequest(rmID="rm-1", allocations=asks))
    await shim.until("placed", lambda: len(shim.placed) == count)
    assert not [node for node in shim.placed.values() if int(node[1:]) % 3 == 0]
    assert client.stats.predicates >= count
    assert client.stats.questions <= count / 10
    shim.unharmed()


async def test_events_that_a_shim_is_too_slow_for_are_counted(door: str, serve: StartServer, connect: MakeClient) -> None:
    held = asyncio.Event()

    class Slow(Shim):
        async def send_event(self, events: Sequence[si.EventRecord]) -> None:
            await held.wait()
            await super().send_event(events)

    server, shim = await serve(), Slow()
    client = connect(server.url(door), event_queue=1)
    await register(client, shim)
    await nodes(client, 1, 1_000_000)
    async with asyncio.timeout(LIMIT):
        n = 0
        while client.stats.events_dropped == 0:
            n += 1
            await application(client, f"app-{n}")
            await ask(client, f"app-{n}", f"app-{n}", 1)
            await shim.until("placed", lambda: f"app-{n}" in shim.placed)  # noqa: B023
    held.set()
    shim.unharmed()


async def test_what_a_handler_throws_loses_nothing(door: str, serve: StartServer, connect: MakeClient) -> None:
    class Clumsy(Shim):
        async def update_allocation(self, response: si.AllocationResponse) -> None:
            await super().update_allocation(response)
            raise ValueError("dropped it")

    server, shim = await serve(), Clumsy()
    client = connect(server.url(door))
    await register(client, shim)
    await nodes(client, 1, 1_000)
    await application(client, "app")
    for n in range(20):
        await ask(client, "app", f"k{n}", 10)
    await shim.until("placed", lambda: len(shim.placed) == 20)
    shim.unharmed()


async def test_a_shim_may_end_the_client_from_within_a_handler(door: str, serve: StartServer, connect: MakeClient) -> None:
    ended = asyncio.Event()

    class Leaving(Shim):
        async def update_node(self, response: si.NodeResponse) -> None:
            await super().update_node(response)
            await client.stop()
            ended.set()

    server = await serve()
    client = connect(server.url(door))
    await register(client, Leaving())
    await nodes(client, 1, 1_000)
    async with asyncio.timeout(LIMIT):
        await ended.wait()
    with pytest.raises(StoppedError):
        await client.flush()
