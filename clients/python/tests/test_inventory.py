# SPDX-License-Identifier: Apache-2.0
"""What a client would tell a server that knows nothing."""

from __future__ import annotations

from callboard import si
from callboard.inventory import Inventory, at
from callboard.proto.callboard.v1 import callboard_pb2 as ext
from tests.shim import asking, memory


def node(name: str, action: si.NodeInfo.ActionFromRM.ValueType, room: int = 100) -> ext.Request:
    return ext.Request(node=si.NodeRequest(nodes=[si.NodeInfo(nodeID=name, action=action, schedulableResource=memory(room))]))


def application(name: str) -> ext.Request:
    return ext.Request(application=si.ApplicationRequest(new=[si.AddApplicationRequest(applicationID=name)]))


def ask(name: str, key: str, on: str = "") -> ext.Request:
    asked = asking(name, key, 10)
    asked.nodeID = on
    return ext.Request(allocation=si.AllocationRequest(allocations=[asked]))


def release(name: str, key: str, why: si.TerminationType.ValueType = si.STOPPED_BY_RM) -> ext.Request:
    going = si.AllocationRelease(partitionName="default", applicationID=name, allocationKey=key, terminationType=why)
    return ext.Request(allocation=si.AllocationRequest(releases=si.AllocationReleasesRequest(allocationsToRelease=[going])))


def placed(name: str, key: str, on: str) -> ext.Call:
    new = asking(name, key, 10)
    new.nodeID, new.partitionName = on, "[rm-1]default"
    return ext.Call(allocation=si.AllocationResponse(new=[new]))


def accepted(name: str) -> ext.Call:
    return ext.Call(application=si.ApplicationResponse(accepted=[si.AcceptedApplication(applicationID=name)]))


def rejected(name: str, key: str) -> ext.Call:
    no = si.RejectedAllocation(allocationKey=key, applicationID=name, reason="no")
    return ext.Call(allocation=si.AllocationResponse(rejectedAllocations=[no]))


def state(inventory: Inventory) -> dict[str, str]:
    return {place.id: there.nodeID for place, there in inventory.allocations.items()}


def filled() -> Inventory:
    known = Inventory()
    for request in (node("n1", si.NodeInfo.CREATE), node("n2", si.NodeInfo.CREATE_DRAIN), application("a"), application("b")):
        known.requested(request)
    for request in (ask("a", "k1"), ask("a", "k2"), ask("b", "k3"), ask("b", "there", "n2")):
        known.requested(request)
    known.responded(placed("a", "k1", "n1"))
    return known


def test_what_was_asked_for_and_where_it_is() -> None:
    known = filled()
    assert state(known) == {"k1": "n1", "k2": "", "k3": "", "there": "n2"}
    assert [there.schedulable for there in known.nodes.values()] == [True, False]
    # A change of its size leaves it where it is.
    known.requested(ask("a", "k1"))
    assert state(known)["k1"] == "n1"
    # What the shim was told of is that alone which was answered.
    assert known.told == {at("allocation", "", "k1", "a")}
    known.responded(ext.Call(application=si.ApplicationResponse(accepted=[si.AcceptedApplication(applicationID="a")])))
    assert at("application", "", "a") in known.told
    assert at("application", "", "b") not in known.told


def test_what_goes_is_not_told() -> None:
    known = filled()
    known.requested(release("a", "k2"))
    known.requested(release("a", "k1", si.SCHEDULING_FAILED_ON_RM))
    assert state(known) == {"k1": "", "k3": "", "there": "n2"}
    assert not known.told
    rejected = si.RejectedAllocation(allocationKey="k3", applicationID="b", reason="no")
    known.responded(ext.Call(allocation=si.AllocationResponse(rejectedAllocations=[rejected])))
    known.requested(node("n2", si.NodeInfo.DECOMISSION))
    assert state(known) == {"k1": ""}
    known.responded(accepted("a"))
    ended = si.UpdatedApplication(applicationID="a", state="Completed")
    known.responded(ext.Call(application=si.ApplicationResponse(updated=[ended])))
    assert not known.allocations
    assert [place.id for place in known.applications] == ["b"]


def refused(name: str) -> ext.Call:
    return ext.Call(application=si.ApplicationResponse(rejected=[si.RejectedApplication(applicationID=name, reason="no")]))


def test_a_refused_submission_leaves_the_application_that_is_there() -> None:
    known = filled()
    known.responded(ext.Call(application=si.ApplicationResponse(accepted=[si.AcceptedApplication(applicationID="a")])))
    known.responded(refused("a"))
    known.responded(refused("b"))
    assert [place.id for place in known.applications] == ["a"]
    assert state(known) == {"k1": "n1", "k2": ""}
    # A server that is told again has neither until it says so.
    known.responded(refused("a"), lambda place: place == at("application", "", "a"))
    assert not known.applications
    assert not known.allocations


def test_keys_are_unique_within_an_application() -> None:
    known = filled()
    known.requested(ask("b", "k1"))
    known.responded(placed("b", "k1", "n2"))
    known.requested(release("a", "k1"))
    assert state(known) == {"k2": "", "k3": "", "k1": "n2", "there": "n2"}
    rejected = si.RejectedAllocation(allocationKey="k3", applicationID="a", reason="no")
    known.responded(ext.Call(allocation=si.AllocationResponse(rejectedAllocations=[rejected])))
    assert "k3" in state(known)


def test_nodes_follow_what_the_shim_says() -> None:
    known = filled()
    known.requested(node("n1", si.NodeInfo.DRAIN_NODE))
    known.requested(node("n2", si.NodeInfo.DRAIN_TO_SCHEDULABLE))
    known.requested(node("n1", si.NodeInfo.UPDATE, 7))
    assert [there.schedulable for there in known.nodes.values()] == [False, True]
    assert known.nodes[at("node", "", "n1")].info.schedulableResource == memory(7)
    known.responded(ext.Call(node=si.NodeResponse(accepted=[si.AcceptedNode(nodeID="n1")])))
    # One that is there stays, whatever of an update was rejected; one that never came goes.
    refused = [si.RejectedNode(nodeID="n1"), si.RejectedNode(nodeID="n2")]
    known.responded(ext.Call(node=si.NodeResponse(rejected=refused)))
    assert [place.id for place in known.nodes] == ["n1"]


def test_a_whole_application_goes_with_a_release_without_a_key() -> None:
    known = filled()
    known.requested(release("b", ""))
    assert state(known) == {"k1": "n1", "k2": ""}
    remove = si.RemoveApplicationRequest(applicationID="a")
    known.requested(ext.Request(application=si.ApplicationRequest(remove=[remove])))
    assert not known.allocations


def test_many_of_them_cost_no_more_each() -> None:
    known, count = Inventory(), 20_000
    for n in range(count):
        known.requested(application(f"a{n}"))
        known.requested(ask(f"a{n}", f"k{n}"))
        known.responded(placed(f"a{n}", f"k{n}", "n1"))
    for n in range(count):
        known.responded(accepted(f"a{n}"))
        ended = si.UpdatedApplication(applicationID=f"a{n}", state="Completed")
        known.responded(ext.Call(application=si.ApplicationResponse(updated=[ended])))
    assert not known.applications
    assert not known.allocations
    assert not known.told


def test_what_the_server_refuses_changes_nothing() -> None:
    known = filled()
    for key in ("k1", "k2"):
        none = si.Allocation(applicationID="a", allocationKey=key)
        known.requested(ext.Request(allocation=si.AllocationRequest(allocations=[none])))
        known.requested(ask("a", key, "nowhere"))
        known.responded(rejected("a", key))
        known.responded(rejected("a", key))
    assert state(known) == {"k1": "n1", "k2": "", "k3": "", "there": "n2"}
    assert all(there.resourcePerAlloc.resources for there in known.allocations.values())
    # One that is new is not told again.
    known.requested(ask("a", "k4", "n1"))
    known.responded(rejected("a", "k4"))
    assert "k4" not in state(known)


def test_an_answer_is_for_what_it_answers() -> None:
    known = filled()
    # The same key again, before the end of the first is confirmed.
    known.requested(release("a", "k1"))
    known.requested(ask("a", "k1"))
    gone = si.AllocationRelease(
        partitionName="[rm-1]default", applicationID="a", allocationKey="k1", terminationType=si.STOPPED_BY_RM
    )
    known.responded(ext.Call(allocation=si.AllocationResponse(released=[gone])))
    assert state(known)["k1"] == ""
    known.responded(ext.Call(allocation=si.AllocationResponse(released=[gone])))
    assert "k1" not in state(known)
    # The same application again, before the end of the first is told.
    known.responded(accepted("b"))
    known.requested(ext.Request(application=si.ApplicationRequest(remove=[si.RemoveApplicationRequest(applicationID="b")])))
    known.requested(application("b"))
    ended = si.UpdatedApplication(applicationID="b", state="Completed")
    known.responded(ext.Call(application=si.ApplicationResponse(updated=[ended])))
    # And a second time, of which one is refused in the same answer.
    known.requested(application("b"))
    both = si.ApplicationResponse(
        accepted=[si.AcceptedApplication(applicationID="b")], rejected=[si.RejectedApplication(applicationID="b")]
    )
    known.responded(ext.Call(application=both))
    assert [place.id for place in known.applications] == ["a", "b"]
    # A node that is updated before it is there.
    known.requested(node("n3", si.NodeInfo.UPDATE))
    known.requested(node("n3", si.NodeInfo.CREATE))
    known.responded(ext.Call(node=si.NodeResponse(rejected=[si.RejectedNode(nodeID="n3")])))
    assert at("node", "", "n3") in known.nodes


def test_what_is_released_before_its_placement_is_told_is_gone() -> None:
    known = filled()
    before = state(known)
    known.requested(ask("a", "k9"))
    known.requested(release("a", "k9"))
    known.responded(placed("a", "k9", "n1"))
    assert state(known) == before
    gone = si.AllocationRelease(applicationID="a", allocationKey="k9", terminationType=si.STOPPED_BY_RM)
    known.responded(ext.Call(allocation=si.AllocationResponse(released=[gone])))
    assert state(known) == before


def test_an_update_of_a_node_has_its_attributes() -> None:
    def told(action: si.NodeInfo.ActionFromRM.ValueType, **attributes: str) -> ext.Request:
        given = {name.replace("_", "/", 1).replace("_", "-"): value for name, value in attributes.items()}
        return ext.Request(node=si.NodeRequest(nodes=[si.NodeInfo(nodeID="n1", action=action, attributes=given)]))

    known = Inventory()
    known.requested(told(si.NodeInfo.CREATE, si_node_partition="p", si_hostname="old", si_rackname="r"))
    known.requested(told(si.NodeInfo.CREATE, si_hostname="other"))
    known.requested(told(si.NodeInfo.UPDATE, si_node_partition="p", si_hostname="new"))
    known.requested(told(si.NodeInfo.UPDATE, si_node_partition="p"))
    # Two partitions have a node of the same id.
    assert len(known.nodes) == 2
    assert dict(known.nodes[at("node", "p", "n1")].info.attributes) == {"si/node-partition": "p", "si/hostname": "new"}
