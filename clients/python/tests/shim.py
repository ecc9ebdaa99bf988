# SPDX-License-Identifier: Apache-2.0
"""A shim that notes what it is told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence

from callboard import Client, ResourceManagerCallback, si
from callboard.news import News

CONFIG = """partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: a
"""
# Asks of which none constrains another are asked about side by side.
UNCONSTRAINED = {"shim.predicates.constrained": "false"}
# The longest that anything may take, in seconds.
LIMIT = float(os.environ.get("CALLBOARD_TEST_LIMIT", "120"))


def through(door: str, addr: str) -> str:
    """An address as a client takes it."""
    return addr if door == "grpc" else f"http://{addr}"


class Shim(ResourceManagerCallback):
    """What it was told, in order."""

    def __init__(self) -> None:
        self.news = News()
        self.nodes: list[str] = []
        self.applications: list[str] = []
        self.placed: dict[str, str] = {}
        self.order: list[str] = []
        self.released: list[str] = []
        self.rejected: list[str] = []
        self.twice: list[str] = []
        self.events = 0
        self.asked = 0
        self.inside = 0
        self.side_by_side = 0
        self.fits: Callable[[si.PredicatesArgs], Awaitable[str | None]] | None = None

    async def _enter(self) -> None:
        self.inside += 1
        self.side_by_side += self.inside > 1
        # Whoever comes too early comes now.
        await asyncio.sleep(0)
        self.inside -= 1

    async def update_allocation(self, response: si.AllocationResponse) -> None:
        await self._enter()
        for new in response.new:
            if new.allocationKey in self.placed:
                self.twice.append(new.allocationKey)
            self.placed[new.allocationKey] = new.nodeID
            self.order.append(new.allocationKey)
        self.released += [released.allocationKey for released in response.released]
        self.rejected += [f"{rejected.allocationKey}: {rejected.reason}" for rejected in response.rejectedAllocations]
        self.news.tell()

    async def update_application(self, response: si.ApplicationResponse) -> None:
        await self._enter()
        self.applications += [accepted.applicationID for accepted in response.accepted]
        self.rejected += [f"{rejected.applicationID}: {rejected.reason}" for rejected in response.rejected]
        self.news.tell()

    async def update_node(self, response: si.NodeResponse) -> None:
        await self._enter()
        self.nodes += [accepted.nodeID for accepted in response.accepted]
        self.rejected += [f"{rejected.nodeID}: {rejected.reason}" for rejected in response.rejected]
        self.news.tell()

    async def predicates(self, args: si.PredicatesArgs) -> str | None:
        self.asked += 1
        return None if self.fits is None else await self.fits(args)

    async def send_event(self, events: Sequence[si.EventRecord]) -> None:
        self.events += len(events)
        self.news.tell()

    async def get_state_dump(self) -> str:
        return '{"cache": "of the shim"}'

    async def until(self, what: str, so: Callable[[], bool]) -> None:
        """Waits until it is so."""
        try:
            async with asyncio.timeout(LIMIT):
                await self.news.until(so)
        except TimeoutError:
            raise AssertionError(f"{what}: not in time: {len(self.placed)} placed, rejected {self.rejected[:5]}") from None

    def unharmed(self) -> None:
        """Nothing came twice, side by side, or was rejected."""
        assert not self.twice
        assert not self.rejected
        assert not self.side_by_side


async def register(client: Client, shim: ResourceManagerCallback, extra: dict[str, str] | None = None) -> None:
    request = si.RegisterResourceManagerRequest(rmID="rm-1", policyGroup="queues", config=CONFIG, extraConfig=extra or {})
    await client.register_resource_manager(request, shim)


def memory(value: int) -> si.Resource:
    return si.Resource(resources={"memory": si.Quantity(value=value)})


async def nodes(client: Client, count: int, room: int) -> None:
    """Brings n0, n1 … with so much room each."""
    new = [
        si.NodeInfo(nodeID=f"n{n}", action=si.NodeInfo.ActionFromRM.CREATE, schedulableResource=memory(room))
        for n in range(count)
    ]
    await client.update_node(si.NodeRequest(rmID="rm-1", nodes=new))


async def application(client: Client, name: str) -> None:
    user = si.UserGroupInformation(user="alice", groups=["staff"])
    new = si.AddApplicationRequest(applicationID=name, queueName="root.a", partitionName="default", ugi=user)
    await client.update_application(si.ApplicationRequest(rmID="rm-1", new=[new]))


def asking(name: str, key: str, size: int) -> si.Allocation:
    return si.Allocation(applicationID=name, allocationKey=key, partitionName="default", resourcePerAlloc=memory(size))


async def ask(client: Client, name: str, key: str, size: int) -> None:
    await client.update_allocation(si.AllocationRequest(rmID="rm-1", allocations=[asking(name, key, size)]))


async def release(client: Client, name: str, key: str) -> None:
    going = si.AllocationRelease(
        partitionName="default", applicationID=name, allocationKey=key, terminationType=si.TerminationType.STOPPED_BY_RM
    )
    releases = si.AllocationReleasesRequest(allocationsToRelease=[going])
    await client.update_allocation(si.AllocationRequest(rmID="rm-1", releases=releases))
