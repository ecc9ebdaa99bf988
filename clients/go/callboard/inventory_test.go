// Licensed under the Apache License, Version 2.0 (the "License"); you may not
// use this file except in compliance with the License. You may obtain a copy of
// the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
// WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
// License for the specific language governing permissions and limitations under
// the License.

package callboard

import (
	"slices"
	"testing"

	"github.com/apache/yunikorn-core/callboardv1"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

func application(ids ...string) *callboardv1.Request {
	request := &si.ApplicationRequest{}
	for _, id := range ids {
		request.New = append(request.New, &si.AddApplicationRequest{ApplicationID: id})
	}
	return &callboardv1.Request{Request: &callboardv1.Request_Application{Application: request}}
}

func allocation(application, key, node string) *si.Allocation {
	size := &si.Resource{Resources: map[string]*si.Quantity{"vcore": {Value: 1}}}
	return &si.Allocation{ApplicationID: application, AllocationKey: key, NodeID: node, PartitionName: "[rm-1]default", ResourcePerAlloc: size}
}

func asked(allocations ...*si.Allocation) *callboardv1.Request {
	request := &si.AllocationRequest{Allocations: allocations}
	return &callboardv1.Request{Request: &callboardv1.Request_Allocation{Allocation: request}}
}

func answered(response *si.ApplicationResponse) *callboardv1.Call {
	return &callboardv1.Call{Call: &callboardv1.Call_Application{Application: response}}
}

func refused(id string) *callboardv1.Call {
	return answered(&si.ApplicationResponse{Rejected: []*si.RejectedApplication{{ApplicationID: id}}})
}

// filled has a with k1 and k2, and b with k1; a was accepted.
func filled() *inventory {
	known, nothing := newInventory(), newExpectation()
	known.requested(application("a", "b"))
	known.requested(asked(allocation("a", "k1", ""), allocation("a", "k2", ""), allocation("b", "k1", "")))
	known.responded(answered(&si.ApplicationResponse{Accepted: []*si.AcceptedApplication{{ApplicationID: "a"}}}), nothing)
	return known
}

func has(t *testing.T, known *inventory, want ...string) {
	t.Helper()
	var got []string
	for _, at := range inOrder(known, known.allocations) {
		got = append(got, at.application+"/"+at.id+"@"+known.allocations[at].GetNodeID())
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the allocations are %v, not %v", got, want)
	}
}

func TestARefusedSubmissionLeavesTheApplicationThatIsThere(t *testing.T) {
	known, again := filled(), newExpectation()
	known.responded(refused("a"), again)
	known.responded(refused("b"), again)
	has(t, known, "a/k1@", "a/k2@")
	// A server that is told again has neither until it says so.
	again.add(at(anApplication, "", "a"), true)
	known.responded(refused("a"), again)
	has(t, known)
	if len(known.applications)+len(known.named)+len(known.of)+len(known.order) > 0 {
		t.Fatalf("something is left of what has gone: %+v", known)
	}
}

func TestKeysAreUniqueWithinAnApplication(t *testing.T) {
	known, nothing := filled(), newExpectation()
	new := &si.AllocationResponse{New: []*si.Allocation{allocation("b", "k1", "n1")}}
	known.responded(&callboardv1.Call{Call: &callboardv1.Call_Allocation{Allocation: new}}, nothing)
	has(t, known, "a/k1@", "a/k2@", "b/k1@n1")
	rejected := &si.AllocationResponse{RejectedAllocations: []*si.RejectedAllocation{{ApplicationID: "a", AllocationKey: "k1"}}}
	known.responded(&callboardv1.Call{Call: &callboardv1.Call_Allocation{Allocation: rejected}}, nothing)
	has(t, known, "a/k2@", "b/k1@n1")
}

func nodes(action si.NodeInfo_ActionFromRM, id string, attributes map[string]string) *callboardv1.Request {
	node := &si.NodeInfo{NodeID: id, Action: action, Attributes: attributes}
	return &callboardv1.Request{Request: &callboardv1.Request_Node{Node: &si.NodeRequest{Nodes: []*si.NodeInfo{node}}}}
}

func rejected(application, key string) *callboardv1.Call {
	response := &si.AllocationResponse{RejectedAllocations: []*si.RejectedAllocation{{ApplicationID: application, AllocationKey: key}}}
	return &callboardv1.Call{Call: &callboardv1.Call_Allocation{Allocation: response}}
}

func TestWhatTheServerRefusesChangesNothing(t *testing.T) {
	known, nothing := filled(), newExpectation()
	placed := &si.AllocationResponse{New: []*si.Allocation{allocation("a", "k1", "n1")}}
	known.responded(&callboardv1.Call{Call: &callboardv1.Call_Allocation{Allocation: placed}}, nothing)
	for _, key := range []string{"k1", "k2"} {
		none := allocation("a", key, "")
		none.ResourcePerAlloc = nil
		known.requested(asked(none, allocation("a", key, "nowhere")))
		known.responded(rejected("a", key), nothing)
		known.responded(rejected("a", key), nothing)
	}
	has(t, known, "a/k1@n1", "a/k2@", "b/k1@")
	for at, allocation := range known.allocations {
		if len(allocation.GetResourcePerAlloc().GetResources()) == 0 {
			t.Fatalf("%v has lost its size", at)
		}
	}
}

func TestAnAllocationThatIsRefusedIsNotToldAgain(t *testing.T) {
	known, nothing := filled(), newExpectation()
	known.requested(nodes(si.NodeInfo_CREATE, "n1", nil))
	known.requested(asked(allocation("a", "k3", "n1")))
	known.responded(rejected("a", "k3"), nothing)
	has(t, known, "a/k1@", "a/k2@", "b/k1@")
}

func TestAnAnswerIsForWhatItAnswers(t *testing.T) {
	known, nothing := filled(), newExpectation()
	// The same key again, before the end of the first is confirmed.
	release := &si.AllocationRelease{ApplicationID: "a", AllocationKey: "k1", TerminationType: si.TerminationType_STOPPED_BY_RM}
	releases := &si.AllocationReleasesRequest{AllocationsToRelease: []*si.AllocationRelease{release}}
	ended := &callboardv1.Request_Allocation{Allocation: &si.AllocationRequest{Releases: releases}}
	known.requested(&callboardv1.Request{Request: ended})
	known.requested(asked(allocation("a", "k1", "")))
	told := &si.AllocationResponse{Released: []*si.AllocationRelease{release}}
	known.responded(&callboardv1.Call{Call: &callboardv1.Call_Allocation{Allocation: told}}, nothing)
	has(t, known, "a/k2@", "b/k1@", "a/k1@")
	// The same application again, before the end of the first is told.
	removed := &si.ApplicationRequest{Remove: []*si.RemoveApplicationRequest{{ApplicationID: "a"}}}
	known.requested(&callboardv1.Request{Request: &callboardv1.Request_Application{Application: removed}})
	known.requested(application("a"))
	known.responded(answered(&si.ApplicationResponse{Updated: []*si.UpdatedApplication{{ApplicationID: "a", State: "Completed"}}}), nothing)
	if len(known.applications) != 2 {
		t.Fatalf("the applications are %v", known.applications)
	}
	// A node that is updated before it is there.
	known.requested(nodes(si.NodeInfo_UPDATE, "n1", nil))
	known.requested(nodes(si.NodeInfo_CREATE, "n1", nil))
	unknown := &si.NodeResponse{Rejected: []*si.RejectedNode{{NodeID: "n1"}}}
	known.responded(&callboardv1.Call{Call: &callboardv1.Call_Node{Node: unknown}}, nothing)
	if len(known.nodes) != 1 {
		t.Fatal("the node is forgotten")
	}
}

func TestWhatIsReleasedBeforeItsPlacementIsToldIsGone(t *testing.T) {
	known, nothing := filled(), newExpectation()
	release := &si.AllocationRelease{ApplicationID: "a", AllocationKey: "k9", TerminationType: si.TerminationType_STOPPED_BY_RM}
	releases := &si.AllocationReleasesRequest{AllocationsToRelease: []*si.AllocationRelease{release}}
	known.requested(asked(allocation("a", "k9", "")))
	known.requested(&callboardv1.Request{Request: &callboardv1.Request_Allocation{Allocation: &si.AllocationRequest{Releases: releases}}})
	for _, told := range []*si.AllocationResponse{{New: []*si.Allocation{allocation("a", "k9", "n1")}}, {Released: []*si.AllocationRelease{release}}} {
		known.responded(&callboardv1.Call{Call: &callboardv1.Call_Allocation{Allocation: told}}, nothing)
		has(t, known, "a/k1@", "a/k2@", "b/k1@")
	}
}

func TestAnUpdateOfANodeHasItsAttributes(t *testing.T) {
	known := newInventory()
	known.requested(nodes(si.NodeInfo_CREATE, "n1", map[string]string{"si/node-partition": "p", "si/hostname": "old", "x": "y"}))
	known.requested(nodes(si.NodeInfo_CREATE, "n1", map[string]string{"si/hostname": "other"}))
	known.requested(nodes(si.NodeInfo_UPDATE, "n1", map[string]string{"si/node-partition": "p", "si/hostname": "new"}))
	known.requested(nodes(si.NodeInfo_UPDATE, "n1", map[string]string{"si/node-partition": "p"}))
	if got := known.nodes[at(aNode, "p", "n1")].info.Attributes; len(got) != 2 || got["si/hostname"] != "new" || got["si/node-partition"] != "p" {
		t.Fatalf("the attributes are %v", got)
	}
	if len(known.nodes) != 2 {
		t.Fatalf("two partitions have a node of the same id: %v", known.nodes)
	}
}
