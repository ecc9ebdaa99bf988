# SPDX-License-Identifier: Apache-2.0
"""What a server has to be told when it knows nothing: as the shim asked for it, and as it was answered."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from callboard.proto.callboard.v1 import callboard_pb2 as ext
from callboard.proto.si.v1 import si_pb2 as si

# Where a message names no partition.
USUAL_PARTITION = "default"
# The attribute in which a node does.
NODE_PARTITION = "si/node-partition"
# The tag of what another scheduler placed.
FOREIGN = "foreign"
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


def node_at(node: si.NodeInfo) -> Place:
    """The place of a node: two partitions may have one of the same id."""
    return at("node", node.attributes.get(NODE_PARTITION, ""), node.nodeID)


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
        # How many messages the server refuses and has not answered yet, by what they are about: they change nothing, and their
        # answers say nothing of what came before or after them under the same name.
        self._wrong: Counter[tuple[Kind, Name]] = Counter()
        # How many releases by the shim are not confirmed: what comes under the same key after them stays.
        self._ended: Counter[Place] = Counter()
        # By what answers name, not always with the partition, and allocations by their applications.
        self._named: defaultdict[Name, set[Place]] = defaultdict(set)
        self._of: defaultdict[str, set[Place]] = defaultdict(set)

    def _forget(self, place: Place) -> None:
        self.told.discard(place)
        if self.nodes.pop(place, None) is not None:
            _drop(self._named, name_of(place), place)
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
                    if key in self.applications:
                        self._wrong["application", name_of(key)] += 1
                        continue
                    self.applications[key] = copy(new)
                    self._named[name_of(key)].add(key)
                for remove in request.application.remove:
                    self._remove_application(at("application", remove.partitionName, remove.applicationID))
            case "allocation":
                for allocation in request.allocation.allocations:
                    self._allocation(allocation)
                for release in request.allocation.releases.allocationsToRelease:
                    self._release(release)

    def _node(self, node: si.NodeInfo) -> None:
        key = node_at(node)
        known = self.nodes.get(key)
        match node.action:
            case si.NodeInfo.CREATE | si.NodeInfo.CREATE_DRAIN if known is None:
                self.nodes[key] = Node(copy(node), node.action == si.NodeInfo.CREATE)
                self._named[name_of(key)].add(key)
            case si.NodeInfo.UPDATE if known is not None:
                _update(known.info, node)
            case si.NodeInfo.DRAIN_NODE if known is not None:
                known.schedulable = False
            case si.NodeInfo.DRAIN_TO_SCHEDULABLE if known is not None and not known.schedulable:
                known.schedulable = True
            case si.NodeInfo.DECOMISSION if known is not None:
                self._forget(key)
                for place in [place for place, there in self.allocations.items() if there.nodeID == node.nodeID]:
                    if place.partition == key.partition:
                        self._forget(place)
            case _:
                self._wrong["node", name_of(key)] += 1

    def _allocation(self, allocation: si.Allocation) -> None:
        key = place_of(allocation)
        if self._is_refused(allocation):
            self._wrong["allocation", name_of(key)] += 1
            return
        known, new = self.allocations.get(key), copy(allocation)
        if known is not None and FOREIGN not in new.allocationTags and (not new.nodeID or key in self.told):
            # A change of its size leaves it where it is.
            new.nodeID = known.nodeID
        self._allocated(key, new)

    def _is_refused(self, allocation: si.Allocation) -> bool:
        """Whether the server rejects it, and changes nothing of what it knows under this key."""
        amounts = [amount.value for amount in allocation.resourcePerAlloc.resources.values()]
        foreign = FOREIGN in allocation.allocationTags
        if not foreign and at("application", allocation.partitionName, allocation.applicationID) not in self.applications:
            return True
        if any(amount < 0 for amount in amounts) or not (foreign or any(amounts)):
            return True
        if not allocation.nodeID:
            return foreign
        return at("node", allocation.partitionName, allocation.nodeID) not in self.nodes

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
        if known is not None and release.terminationType in (si.UNKNOWN_TERMINATION_TYPE, si.STOPPED_BY_RM):
            self._ended[key] += 1
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
        # One that was handed in under an id that was removed is not accepted yet when the end of the one before is told.
        for place in self._applications_named(updated.applicationID for updated in answer.updated if updated.state in ENDED):
            if place in self.told:
                self._remove_application(place)
        # Before what is refused: that is a second one of the same id.
        self.told |= set(self._applications_named(accepted.applicationID for accepted in answer.accepted))
        refused = {new.applicationID for new in answer.rejected if not self._was_wrong("application", ("", new.applicationID))}
        refused |= {updated.applicationID for updated in answer.updated if updated.state == REJECTED}
        for place in self._applications_named(refused):
            if not self._is_there(place, again):
                self._remove_application(place)

    def _applications_named(self, ids: Iterable[str]) -> list[Place]:
        return [place for name in ids for place in self._named.get(("", name), ()) if place.kind == "application"]

    def _nodes_answered(self, answer: si.NodeResponse, again: Again) -> None:
        for rejected in answer.rejected:
            places = self._nodes_named(rejected.nodeID)
            if any(map(again, places)) or not self._was_wrong("node", ("", rejected.nodeID)):
                self._refused(places, again)
        self.told |= {place for accepted in answer.accepted for place in self._nodes_named(accepted.nodeID)}

    def _nodes_named(self, name: str) -> list[Place]:
        return [place for place in self._named.get(("", name), ()) if place.kind == "node"]

    def _was_wrong(self, kind: Kind, name: Name) -> bool:
        """Whether this answer is that of a message which changed nothing."""
        if not self._wrong[kind, name]:
            return False
        self._wrong[kind, name] -= 1
        if not self._wrong[kind, name]:
            del self._wrong[kind, name]
        return True

    def _refused(self, places: Iterable[Place], again: Again) -> None:
        for place in places:
            if not self._is_there(place, again):
                self._forget(place)

    def begins_again(self) -> None:
        """What was not answered never will be."""
        self._wrong.clear()
        self._ended.clear()

    def _allocations_answered(self, answer: si.AllocationResponse, again: Again) -> None:
        for new in answer.new:
            key = place_of(new)
            if known := self.allocations.get(key):
                known.nodeID = new.nodeID
            elif self._ended[key]:
                # The shim released it while this was on its way.
                continue
            else:
                self._allocated(key, copy(new))
            self.told.add(key)
        for rejected in answer.rejectedAllocations:
            name = (rejected.applicationID, rejected.allocationKey)
            places = [place for place in self._named.get(name, ()) if place.kind == "allocation"]
            if any(map(again, places)) or not self._was_wrong("allocation", name):
                self._refused(places, again)
        for released in answer.released:
            # The others go when the shim has confirmed them.
            if released.terminationType != si.STOPPED_BY_RM:
                continue
            place = place_of(released)
            if self._ended[place]:
                self._ended[place] -= 1
                if not self._ended[place]:
                    del self._ended[place]
            else:
                self._forget(place)


def _update(known: si.NodeInfo, node: si.NodeInfo) -> None:
    """A capacity or attributes that are left out stay; and so does its partition in any case."""
    if node.HasField("schedulableResource"):
        known.schedulableResource.CopyFrom(node.schedulableResource)
    if node.attributes.keys() - {NODE_PARTITION}:
        partition = known.attributes.get(NODE_PARTITION)
        known.attributes.clear()
        known.attributes.update(node.attributes)
        if partition is not None:
            known.attributes[NODE_PARTITION] = partition


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
