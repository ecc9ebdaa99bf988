# SPDX-License-Identifier: Apache-2.0
"""What a server has to be told when it knows nothing: as the shim asked for it, and as it was answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from callboard.proto.callboard.v1 import callboard_pb2 as ext
from callboard.proto.si.v1 import si_pb2 as si

# Where a message names no partition.
USUAL_PARTITION = "default"
# The states in which an application has ended, and that of one which was refused.
ENDED = frozenset({"Completed", "Failed", "Expired"})
REJECTED = "Rejected"

M = TypeVar("M", si.NodeInfo, si.AddApplicationRequest, si.Allocation)
# An id, with that of the application before it where it is an allocation's.
Name: TypeAlias = tuple[str, str]
N = TypeVar("N", str, tuple[str, str])
Kind = Literal["node", "application", "allocation"]


class Place(NamedTuple):
    """An id within a partition, that of an allocation within its application."""

    kind: Kind
    partition: str
    id: str
    application: str = ""


def at(kind: Kind, partition: str, name: str, application: str = "") -> Place:
    """The place of an id; an allocation's is that within an application."""
    # The server may put the resource manager in front: [rm-1]default.
    if partition.startswith("[") and "]" in partition:
        partition = partition.partition("]")[2]
    return Place(kind, partition or USUAL_PARTITION, name, application)


def place_of(allocation: si.Allocation | si.AllocationRelease) -> Place:
    """The place of an allocation, or of one that is released."""
    return at("allocation", allocation.partitionName, allocation.allocationKey, allocation.applicationID)


# Says of a place whether a server that lost its session is being told of it again.
Again: TypeAlias = Callable[[Place], bool]


def _nothing(_: Place) -> bool:
    return False


@dataclass(slots=True)
class Node:
    """A node, and whether it takes something new."""

    info: si.NodeInfo
    schedulable: bool


class Inventory:
    """Nodes, applications and allocations, each in the order in which they came."""

    def __init__(self) -> None:
        self.nodes: dict[Place, Node] = {}
        self.applications: dict[Place, si.AddApplicationRequest] = {}
        self.allocations: dict[Place, si.Allocation] = {}
        # What the shim was told of: that it was accepted, or is placed.
        self.told: set[Place] = set()
        # Applications and allocations by what answers name, not always with the partition, and allocations by their applications.
        self._named: defaultdict[Name, set[Place]] = defaultdict(set)
        self._of: defaultdict[str, set[Place]] = defaultdict(set)

    def _forget(self, place: Place) -> None:
        self.told.discard(place)
        self.nodes.pop(place, None)
        if self.applications.pop(place, None) is not None:
            _drop(self._named, name_of(place), place)
        if self.allocations.pop(place, None) is not None:
            _drop(self._named, name_of(place), place)
            _drop(self._of, place.application, place)

    def _allocated(self, place: Place, allocation: si.Allocation) -> None:
        self.allocations[place] = allocation
        self._named[name_of(place)].add(place)
        self._of[place.application].add(place)

    def requested(self, request: ext.Request) -> None:
        """Notes what the shim asks for."""
        match request.WhichOneof("request"):
            case "node":
                for node in request.node.nodes:
                    self._node(node)
            case "application":
                for new in request.application.new:
                    key = at("application", new.partitionName, new.applicationID)
                    self.applications.setdefault(key, copy(new))
                    self._named[name_of(key)].add(key)
                for remove in request.application.remove:
                    self._remove_application(at("application", remove.partitionName, remove.applicationID))
            case "allocation":
                for allocation in request.allocation.allocations:
                    self._allocation(allocation)
                for release in request.allocation.releases.allocationsToRelease:
                    self._release(release)

    def _node(self, node: si.NodeInfo) -> None:
        key = at("node", "", node.nodeID)
        known = self.nodes.get(key)
        match node.action:
            case si.NodeInfo.CREATE | si.NodeInfo.CREATE_DRAIN if known is None:
                self.nodes[key] = Node(copy(node), node.action == si.NodeInfo.CREATE)
            case si.NodeInfo.UPDATE if known is not None and node.HasField("schedulableResource"):
                known.info.schedulableResource.CopyFrom(node.schedulableResource)
            case si.NodeInfo.DRAIN_NODE | si.NodeInfo.DRAIN_TO_SCHEDULABLE if known is not None:
                known.schedulable = node.action == si.NodeInfo.DRAIN_TO_SCHEDULABLE
            case si.NodeInfo.DECOMISSION:
                self._forget(key)
                for place in [place for place, there in self.allocations.items() if there.nodeID == node.nodeID]:
                    self._forget(place)

    def _allocation(self, allocation: si.Allocation) -> None:
        key = place_of(allocation)
        known, new = self.allocations.get(key), copy(allocation)
        if known is not None and not new.nodeID:
            # A change of its size leaves it where it is.
            new.nodeID = known.nodeID
        self._allocated(key, new)

    def _remove_application(self, key: Place) -> None:
        self._forget(key)
        self._remove_allocations(key)

    def _remove_allocations(self, application: Place) -> None:
        for place in list(self._of.get(application.id, ())):
            if place.partition == application.partition:
                self._forget(place)

    def _release(self, release: si.AllocationRelease) -> None:
        if not release.allocationKey:
            self._remove_allocations(at("application", release.partitionName, release.applicationID))
            return
        key = place_of(release)
        known = self.allocations.get(key)
        if known is not None and release.terminationType == si.SCHEDULING_FAILED_ON_RM:
            # The shim could not carry it out: it waits again.
            known.nodeID = ""
            self.told.discard(key)
            return
        self._forget(key)

    def responded(self, call: ext.Call, again: Again = _nothing) -> None:
        """Notes what the server answers. Of what it is being told again it has nothing until it says so."""
        match call.WhichOneof("call"):
            case "node":
                self._nodes_answered(call.node, again)
            case "application":
                self._applications_answered(call.application, again)
            case "allocation":
                self._allocations_answered(call.allocation, again)

    def _is_there(self, place: Place, again: Again) -> bool:
        """An id that is refused may be that of one that is there, which stays there."""
        return place in self.told and not again(place)

    def _applications_answered(self, answer: si.ApplicationResponse, again: Again) -> None:
        refused = {rejected.applicationID for rejected in answer.rejected}
        refused |= {updated.applicationID for updated in answer.updated if updated.state == REJECTED}
        for place in self._applications_named(refused):
            if not self._is_there(place, again):
                self._remove_application(place)
        for place in self._applications_named(updated.applicationID for updated in answer.updated if updated.state in ENDED):
            self._remove_application(place)
        self.told |= set(self._applications_named(accepted.applicationID for accepted in answer.accepted))

    def _applications_named(self, ids: Iterable[str]) -> list[Place]:
        return [place for name in ids for place in self._named.get(("", name), ()) if place.kind == "application"]

    def _nodes_answered(self, answer: si.NodeResponse, again: Again) -> None:
        for rejected in answer.rejected:
            key = at("node", "", rejected.nodeID)
            if not self._is_there(key, again):
                self._forget(key)
        self.told |= {at("node", "", accepted.nodeID) for accepted in answer.accepted} & self.nodes.keys()

    def _allocations_answered(self, answer: si.AllocationResponse, again: Again) -> None:
        for new in answer.new:
            key = place_of(new)
            if known := self.allocations.get(key):
                known.nodeID = new.nodeID
            else:
                self._allocated(key, copy(new))
            self.told.add(key)
        for rejected in answer.rejectedAllocations:
            for place in list(self._named.get((rejected.applicationID, rejected.allocationKey), ())):
                if place.kind == "allocation" and (not self.allocations[place].nodeID or again(place)):
                    self._forget(place)
        for released in answer.released:
            # The others go when the shim has confirmed them.
            if released.terminationType == si.STOPPED_BY_RM:
                self._forget(place_of(released))


def name_of(place: Place) -> Name:
    """What answers tell of a place."""
    return (place.application, place.id)


def _drop(index: defaultdict[N, set[Place]], name: N, place: Place) -> None:
    index[name].discard(place)
    if not index[name]:
        del index[name]


def copy(message: M) -> M:
    """A message of its own."""
    made = type(message)()
    made.CopyFrom(message)
    return made
