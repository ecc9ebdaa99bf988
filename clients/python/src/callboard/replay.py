# SPDX-License-Identifier: Apache-2.0
"""Telling a server again what there is, when it has lost its session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from callboard.errors import CallboardError, UnreachableError
from callboard.inventory import Inventory, Kind, Name, Place, copy, name_of, place_of
from callboard.link import Link
from callboard.outbox import Part, allocation_parts, application_parts, node_parts
from callboard.proto.callboard.v1 import callboard_pb2 as ext
from callboard.proto.si.v1 import si_pb2 as si

if TYPE_CHECKING:
    from callboard.session import Session

# How long the server may take for one step of a replay, in seconds.
STEP = 120.0
# The states that an application has again after it was told.
BEGUN = frozenset({"New", "Accepted", "Running"})


class Replay:
    """Knows what there is, and keeps from the shim the answers that it has had."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.known = Inventory()
        # Requests wait while the server is told.
        self.running = False
        self._turn = 0
        # What is told, and not answered yet, by kind and what answers name of it, which is not always the partition.
        self._expected: dict[Kind, dict[Name, set[Place]]] = {}
        # What the shim had been told when it began: it is not told again.
        self._before: frozenset[Place] = frozenset()
        self._applications: frozenset[str] = frozenset()

    async def begin(self, why: Exception) -> Link:
        """Registers again, and begins to tell what there is."""
        session = self._session
        session.options.logger.warning("%s: the session is gone: it is told again: %s", session.request.rmID, why)
        await session.inbox.handled()
        self.running = True
        self._turn += 1
        self._expected.clear()
        self.known.begins_again()
        self._before = frozenset(self.known.told)
        self._applications = frozenset(place.id for place in self._before if place.kind == "application")
        # What requests ask for is in the inventory.
        session.outbox.abandon(CallboardError("the session was lost before the configuration was answered"))
        link, _ = await session.register(session.options.connect_timeout)
        session.start(self._tell, self._turn)
        return link

    async def _tell(self, turn: int) -> None:
        session = self._session
        try:
            told = await self._steps(turn)
        except Exception as error:
            await session.lost(CallboardError(f"the session could not be told again: {error}"))
            return
        if told:
            self.running = False
            session.news.tell()
            session.counters.add("replays")
            session.options.logger.info("%s: the session was told again", session.request.rmID)

    async def _steps(self, turn: int) -> bool:
        """Brings nodes that take nothing yet, applications, allocations and asks, and then opens the nodes: so nothing new is
        placed before everything old is there. False where another replay has begun."""
        known, outbox, rm = self.known, self._session.outbox, self._session.request.rmID
        nodes, opened = [], []
        for node in known.nodes.values():
            info = copy(node.info)
            info.action = si.NodeInfo.CREATE_DRAIN
            nodes.append(info)
            if node.schedulable:
                action = si.NodeInfo.DRAIN_TO_SCHEDULABLE
                opened.append(si.NodeInfo(nodeID=info.nodeID, action=action, attributes=info.attributes))
        applications = list(map(copy, known.applications.values()))
        allocations = {place: copy(there) for place, there in known.allocations.items()}
        placed = [there for there in allocations.values() if there.nodeID]
        asks = [there for there in allocations.values() if not there.nodeID]
        there_already = [place for place, there in allocations.items() if there.nodeID]
        for place in (*known.nodes, *known.applications, *there_already):
            self._expected.setdefault(place.kind, {}).setdefault(name_of(place), set()).add(place)

        steps: list[tuple[str, Callable[[], list[Part]], Kind | None]] = [
            ("nodes", lambda: node_parts(si.NodeRequest(nodes=nodes, rmID=rm), outbox), "node"),
            ("applications", lambda: application_parts(si.ApplicationRequest(new=applications, rmID=rm), outbox), "application"),
            # What is foreign is not answered, so applied is all that is waited for.
            ("allocations", lambda: allocation_parts(si.AllocationRequest(allocations=placed, rmID=rm), outbox), None),
            ("asks", lambda: allocation_parts(si.AllocationRequest(allocations=asks, rmID=rm), outbox), None),
            ("opened nodes", lambda: node_parts(si.NodeRequest(nodes=opened, rmID=rm), outbox), None),
        ]
        for what, parts, kind in steps:
            if self._turn != turn:
                return False
            self._session.put(parts())
            try:
                async with asyncio.timeout(STEP):
                    await self._session.news.until(lambda: self._answered(turn, kind))  # noqa: B023
            except TimeoutError:
                raise UnreachableError(f"{what}: not answered within {STEP:.0f} s") from None
        return self._turn == turn

    def _answered(self, turn: int, kind: Kind | None) -> bool:
        """Whether a step is applied and answered, or nobody waits for it any more."""
        if self._session.over is not None or self._turn != turn:
            return True
        return not self._session.outbox and not (kind and self._expected.get(kind))

    def swallow(self, call: ext.Call) -> None:
        """Takes out of a response what answers a replay: the shim knows it."""
        if not any(self._expected.values()) and not self.running:
            return
        match call.WhichOneof("call"):
            case "node":
                accepted = [node for node in call.node.accepted if not self._one_was_expected(("", node.nodeID))]
                del call.node.accepted[:]
                call.node.accepted.extend(accepted)
                for refused in call.node.rejected:
                    self._one_was_expected(("", refused.nodeID))
            case "application":
                answer = call.application
                begun = [new for new in answer.accepted if not self._name_was_expected("application", ("", new.applicationID))]
                del answer.accepted[:]
                answer.accepted.extend(begun)
                for denied in answer.rejected:
                    self._name_was_expected("application", ("", denied.applicationID))
                updated = [new for new in answer.updated if not self._begins_again(new)]
                del answer.updated[:]
                answer.updated.extend(updated)
            case "allocation":
                there = call.allocation
                placed = [new for new in there.new if not self._was_expected(place_of(new))]
                del there.new[:]
                there.new.extend(placed)
                for lost in there.rejectedAllocations:
                    self._name_was_expected("allocation", (lost.applicationID, lost.allocationKey))

    def _begins_again(self, updated: si.UpdatedApplication) -> bool:
        """Whether an application goes through states that the shim was told of."""
        return self.running and updated.state in BEGUN and updated.applicationID in self._applications

    def is_expected(self, place: Place) -> bool:
        """Whether it was told again, and is not answered yet."""
        return place in self._expected.get(place.kind, {}).get(name_of(place), ())

    # What was expected is so no longer; true where the shim knows it.

    def _was_expected(self, place: Place) -> bool:
        named, name = self._expected.get(place.kind, {}), name_of(place)
        if not self.is_expected(place):
            return False
        named[name].discard(place)
        if not named[name]:
            del named[name]
        return place in self._before

    def _one_was_expected(self, name: Name) -> bool:
        """Of nodes: each of this id is answered for itself."""
        found = next(iter(self._expected.get("node", {}).get(name, ())), None)
        return found is not None and self._was_expected(found)

    def _name_was_expected(self, kind: Kind, name: Name) -> bool:
        found = list(self._expected.get(kind, {}).get(name, ()))
        known = [self._was_expected(place) for place in found]
        return any(known)
