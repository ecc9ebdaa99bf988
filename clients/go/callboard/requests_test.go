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
	"errors"
	"slices"
	"testing"

	"github.com/apache/yunikorn-core/callboardv1"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

func TestARequestThatIsCutKeepsItsPlaceAndItsItems(t *testing.T) {
	box := newOutbox()
	ask := func(key string) *si.Allocation { return &si.Allocation{AllocationKey: key} }
	release := func(key string) *si.AllocationRelease { return &si.AllocationRelease{AllocationKey: key} }
	request := &si.AllocationRequest{
		Allocations: []*si.Allocation{ask("a"), ask("b"), ask("c")},
		Releases:    &si.AllocationReleasesRequest{AllocationsToRelease: []*si.AllocationRelease{release("d")}},
	}
	parts, err := allocationParts(request, 100, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	box.add(parts[0].request, parts[0].items).request.Traceparent = "trace"
	behind := box.add(&callboardv1.Request{Request: &callboardv1.Request_Heartbeat{Heartbeat: &callboardv1.Heartbeat{}}}, 0)
	box.next()
	for _, cut := range []struct {
		sequence uint64
		is       bool
	}{{1, true}, {1, true}, {1, false}, {3, false}, {4, false}, {9, false}} {
		if box.split(cut.sequence) != cut.is {
			t.Fatalf("request %d is cut: %v", cut.sequence, !cut.is)
		}
	}
	var keys []string
	for entry := box.next(); entry != nil; entry = box.next() {
		for _, ask := range entry.request.GetAllocation().GetAllocations() {
			keys = append(keys, ask.GetAllocationKey())
		}
		for _, release := range entry.request.GetAllocation().GetReleases().GetAllocationsToRelease() {
			keys = append(keys, release.GetAllocationKey())
		}
		if entry != behind && entry.request.Traceparent != "trace" {
			t.Errorf("%v has no trace", entry.request)
		}
	}
	if box.items != 4 || box.last != 4 || behind.request.Sequence != 4 || !slices.Equal(keys, []string{"a", "b", "c", "d"}) {
		t.Errorf("%v: %d items, the last is %d, and %d", keys, box.items, box.last, behind.request.Sequence)
	}
}

func TestAConfigurationThatIsLeftOutIsNotToldAsApplied(t *testing.T) {
	box := newOutbox()
	entry := box.add(&callboardv1.Request{Request: &callboardv1.Request_Configuration{
		Configuration: &si.UpdateConfigurationRequest{Config: "malformed"},
	}}, 0)
	done := make(chan error, 1)
	entry.done = done
	box.next()
	refused := errors.New("request 1: it cannot be read")
	if !box.void(1, refused) {
		t.Fatal("it is there")
	}
	box.reopened()
	// What goes out in its place under its number is applied.
	if next := box.next(); next.request.GetHeartbeat() == nil || next.request.Sequence != 1 {
		t.Fatalf("%v goes out", next.request)
	}
	box.acknowledged(&callboardv1.Ack{Sequence: 1})
	if err := <-done; !errors.Is(err, refused) {
		t.Fatalf("told %v", err)
	}
}
