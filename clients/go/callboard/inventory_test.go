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
	return &si.Allocation{ApplicationID: application, AllocationKey: key, NodeID: node, PartitionName: "[rm-1]default"}
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
