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
	"fmt"
	"slices"
	"time"

	"github.com/apache/yunikorn-core/callboardv1"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/protobuf/proto"
)

// How long the server may take for one step of a replay.
const step = 2 * time.Minute

// replay registers again, and begins to tell the server what there is.
func (s *session) replay(why error) (*link, error) {
	s.client.options.Logger.Warn("callboard: the session is gone: it is told again", "rm", s.request.GetRmID(), "error", why)
	s.handled()
	s.mu.Lock()
	s.replaying = true
	s.replays++
	turn := s.replays
	s.known.beginsAgain()
	s.expected, s.before = newExpectation(), map[string]struct{}{}
	for key := range s.known.told {
		if key.kind == anApplication {
			s.before[key.id] = struct{}{}
		}
	}
	// What it asks for is in the inventory.
	for _, entry := range s.outbox.queue {
		if entry.done != nil {
			entry.done <- errors.New("callboard: the session was lost before the configuration was answered")
			entry.done = nil
		}
	}
	s.mu.Unlock()
	l, _, err := s.register(s.client.options.ConnectTimeout)
	if err != nil {
		return nil, fmt.Errorf("the session could not be told again: %w", err)
	}
	go func() {
		if err := s.tellAgain(turn); err != nil && s.ctx.Err() == nil {
			s.lost(fmt.Errorf("the session could not be told again: %w", err))
			return
		}
		c := &s.client.counters
		c.add(&c.replays, "Replays", 1)
	}()
	return l, nil
}

// Another replay has begun: that one goes on.
var errOverruled = errors.New("callboard: another replay has begun")

// tellAgain brings nodes that take nothing yet, applications, allocations and asks, and then opens the nodes: so nothing new is
// placed before everything old is there.
func (s *session) tellAgain(turn int) error {
	most, bytes := s.limits()
	s.mu.Lock()
	var nodes, open []*si.NodeInfo
	var applications []*si.AddApplicationRequest
	var placed, asks []*si.Allocation
	for _, key := range inOrder(s.known, s.known.nodes) {
		known := s.known.nodes[key]
		node := proto.Clone(known.info).(*si.NodeInfo)
		node.Action = si.NodeInfo_CREATE_DRAIN
		nodes = append(nodes, node)
		if known.schedulable {
			open = append(open, &si.NodeInfo{NodeID: node.NodeID, Action: si.NodeInfo_DRAIN_TO_SCHEDULABLE, Attributes: node.Attributes})
		}
		s.expect(key)
	}
	for _, key := range inOrder(s.known, s.known.applications) {
		applications = append(applications, proto.Clone(s.known.applications[key]).(*si.AddApplicationRequest))
		s.expect(key)
	}
	for _, key := range inOrder(s.known, s.known.allocations) {
		allocation := proto.Clone(s.known.allocations[key]).(*si.Allocation)
		if allocation.GetNodeID() == "" {
			asks = append(asks, allocation)
			continue
		}
		placed = append(placed, allocation)
		s.expect(key)
	}
	s.mu.Unlock()

	rm := s.request.GetRmID()
	nodeStep := func(list []*si.NodeInfo) func() ([]part, error) {
		return func() ([]part, error) { return nodeParts(&si.NodeRequest{Nodes: list, RmID: rm}, most, bytes) }
	}
	allocationStep := func(list []*si.Allocation) func() ([]part, error) {
		return func() ([]part, error) {
			return allocationParts(&si.AllocationRequest{Allocations: list, RmID: rm}, most, bytes)
		}
	}
	steps := []struct {
		what  string
		parts func() ([]part, error)
		// The answers that come to it; empty for none.
		kind string
	}{
		{"nodes", nodeStep(nodes), aNode},
		{"applications", func() ([]part, error) {
			return applicationParts(&si.ApplicationRequest{New: applications, RmID: rm}, most, bytes)
		}, anApplication},
		// What is foreign is not answered, so applied is all that is waited for.
		{"allocations", allocationStep(placed), ""},
		{"asks", allocationStep(asks), ""},
		{"opened nodes", nodeStep(open), ""},
	}
	for _, step := range steps {
		parts, err := step.parts()
		if err == nil {
			err = s.tellStep(turn, parts, step.kind)
		}
		if errors.Is(err, errOverruled) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	s.mu.Lock()
	if s.replays == turn {
		s.replaying = false
	}
	s.mu.Unlock()
	s.news.Broadcast()
	s.client.options.Logger.Info("callboard: the session was told again", "rm", rm, "nodes", len(nodes),
		"applications", len(applications), "allocations", len(placed), "asks", len(asks))
	return nil
}

// tellStep hands in one step, and waits until it is applied and answered.
func (s *session) tellStep(turn int, parts []part, kind string) error {
	overdue := false
	watch := time.AfterFunc(step, func() {
		s.mu.Lock()
		overdue = true
		s.mu.Unlock()
		s.news.Broadcast()
	})
	defer watch.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replays != turn {
		return errOverruled
	}
	if err := s.put(parts, nil); err != nil {
		return err
	}
	for {
		waits := len(s.outbox.queue) > 0 || s.expected.left[kind] > 0
		switch {
		case s.over != nil:
			return s.over
		case s.replays != turn:
			return errOverruled
		case !waits:
			return nil
		case overdue:
			return fmt.Errorf("not answered within %v", step)
		}
		s.news.Wait()
	}
}

// swallow takes out of a response what answers a replay: the shim knows it. The session's lock is held.
func (s *session) swallow(call *callboardv1.Call) {
	if len(s.expected.known) == 0 && !s.replaying {
		return
	}
	known := s.expected.take
	byName := s.expected.takeNamed
	switch told := call.Call.(type) {
	case *callboardv1.Call_Node:
		told.Node.Accepted = slices.DeleteFunc(told.Node.Accepted, func(node *si.AcceptedNode) bool {
			return s.expected.takeOneNamed(aNode, node.GetNodeID())
		})
		for _, node := range told.Node.Rejected {
			s.expected.takeOneNamed(aNode, node.GetNodeID())
		}
	case *callboardv1.Call_Application:
		told.Application.Accepted = slices.DeleteFunc(told.Application.Accepted, func(application *si.AcceptedApplication) bool {
			return byName(anApplication, "", application.GetApplicationID())
		})
		for _, application := range told.Application.Rejected {
			byName(anApplication, "", application.GetApplicationID())
		}
		told.Application.Updated = slices.DeleteFunc(told.Application.Updated, func(application *si.UpdatedApplication) bool {
			switch application.GetState() {
			case "New", "Accepted", "Running":
				_, known := s.before[application.GetApplicationID()]
				return s.replaying && known
			}
			return false
		})
	case *callboardv1.Call_Allocation:
		told.Allocation.New = slices.DeleteFunc(told.Allocation.New, func(new *si.Allocation) bool {
			return known(allocationAt(new.GetPartitionName(), new.GetApplicationID(), new.GetAllocationKey()))
		})
		for _, rejected := range told.Allocation.RejectedAllocations {
			byName(anAllocation, rejected.GetApplicationID(), rejected.GetAllocationKey())
		}
	}
}

// expectation is what a server was told again, and has not answered yet.
type expectation struct {
	// Whether the shim knows the answer.
	known map[place]bool
	named names
	// How many there are of each kind.
	left map[string]int
}

func newExpectation() *expectation {
	return &expectation{known: map[place]bool{}, named: names{}, left: map[string]int{}}
}

func (e *expectation) has(at place) bool {
	_, has := e.known[at]
	return has
}

func (e *expectation) add(at place, known bool) {
	if !e.has(at) {
		e.named.add(at)
		e.left[at.kind]++
	}
	e.known[at] = known
}

// take notes that the answer has come, and says whether the shim knows it.
func (e *expectation) take(at place) bool {
	known, has := e.known[at]
	if has {
		delete(e.known, at)
		e.named.remove(at)
		e.left[at.kind]--
	}
	return known
}

// takeNamed is take for all of this name.
func (e *expectation) takeNamed(kind, application, id string) bool {
	found := false
	for _, at := range e.named.find(kind, application, id) {
		found = e.take(at) || found
	}
	return found
}

// takeOneNamed is take for one of this name: each node of an id is answered for itself.
func (e *expectation) takeOneNamed(kind, id string) bool {
	found := e.named.find(kind, "", id)
	return len(found) > 0 && e.take(found[0])
}

// expect notes that this is being told again. The session's lock is held.
func (s *session) expect(at place) {
	_, known := s.known.told[at]
	s.expected.add(at, known)
}
