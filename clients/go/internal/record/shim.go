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

// Package record has a shim that notes what it is told, and the requests that tests and checks make.
package record

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// Config has a queue without a limit, and one with room for 100 bytes of memory.
const Config = `partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: a
          - name: small
            resources:
              max: {memory: 100}
`

// Unconstrained says that no ask constrains another: they are asked about side by side. Other servers leave it aside.
var Unconstrained = map[string]string{"shim.predicates.constrained": "false"}

// ErrLate is what Until gives when the time is over.
var ErrLate = errors.New("not in time")

// Shim notes what it is told. Whoever reads its fields while a session runs holds its lock, or is called by Until.
type Shim struct {
	sync.Mutex
	// Ids that were accepted, in order.
	Nodes, Applications []string
	// Where things are, in which order they came there, and which came more than once.
	Placed       map[string]string
	Order, Twice []string
	Released     map[string]si.TerminationType
	// Whatever was rejected, with the reason.
	Rejected []string
	// Questions, and events.
	Asked, Events int
	// Fits answers questions; nil fits everywhere.
	Fits func(*si.PredicatesArgs) error
	// Lost ends Until.
	Lost error

	inside, side atomic.Int64
	changed      chan struct{}
}

// New makes one that was told nothing.
func New() *Shim {
	return &Shim{Placed: map[string]string{}, Released: map[string]si.TerminationType{}, changed: make(chan struct{})}
}

// Note changes something, and wakes those who wait.
func (s *Shim) Note(change func()) {
	s.Lock()
	defer s.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Until waits until it is so.
func (s *Shim) Until(ctx context.Context, what string, so func() bool) error {
	for {
		s.Lock()
		done, lost, changed := so(), s.Lost, s.changed
		state := fmt.Sprintf("%d placed, %d released, rejected %.200v", len(s.Placed), len(s.Released), s.Rejected)
		s.Unlock()
		switch {
		case done:
			return nil
		case lost != nil:
			return lost
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %s", what, ErrLate, state)
		}
	}
}

// SideBySide says that a response came before the handler of the one before it had returned.
func (s *Shim) SideBySide() bool { return s.side.Load() > 0 }

// respond handles a response; whichever comes too early comes now.
func (s *Shim) respond(change func()) error {
	if s.inside.Add(1) > 1 {
		s.side.Add(1)
	}
	runtime.Gosched()
	s.Note(change)
	s.inside.Add(-1)
	return nil
}

// UpdateAllocation notes where asks were placed.
func (s *Shim) UpdateAllocation(response *si.AllocationResponse) error {
	return s.respond(func() {
		for _, new := range response.New {
			if _, known := s.Placed[new.AllocationKey]; known {
				s.Twice = append(s.Twice, new.AllocationKey)
			}
			s.Placed[new.AllocationKey] = new.NodeID
			s.Order = append(s.Order, new.AllocationKey)
		}
		for _, released := range response.Released {
			s.Released[released.AllocationKey] = released.TerminationType
		}
		for _, rejected := range response.RejectedAllocations {
			s.Rejected = append(s.Rejected, rejected.AllocationKey+": "+rejected.Reason)
		}
	})
}

// UpdateApplication notes which were accepted.
func (s *Shim) UpdateApplication(response *si.ApplicationResponse) error {
	return s.respond(func() {
		for _, accepted := range response.Accepted {
			s.Applications = append(s.Applications, accepted.ApplicationID)
		}
		for _, rejected := range response.Rejected {
			s.Rejected = append(s.Rejected, rejected.ApplicationID+": "+rejected.Reason)
		}
	})
}

// UpdateNode notes which were accepted.
func (s *Shim) UpdateNode(response *si.NodeResponse) error {
	return s.respond(func() {
		for _, accepted := range response.Accepted {
			s.Nodes = append(s.Nodes, accepted.NodeID)
		}
		for _, rejected := range response.Rejected {
			s.Rejected = append(s.Rejected, rejected.NodeID+": "+rejected.Reason)
		}
	})
}

// Predicates asks Fits.
func (s *Shim) Predicates(args *si.PredicatesArgs) error {
	s.Lock()
	s.Asked++
	fits := s.Fits
	s.Unlock()
	if fits == nil {
		return nil
	}
	return fits(args)
}

// PreemptionPredicates has no victims to name.
func (s *Shim) PreemptionPredicates(*si.PreemptionPredicatesArgs) *si.PreemptionPredicatesResponse {
	return &si.PreemptionPredicatesResponse{}
}

// SendEvent counts them.
func (s *Shim) SendEvent(events []*si.EventRecord) {
	s.Note(func() { s.Events += len(events) })
}

// UpdateContainerSchedulingState is of no interest.
func (s *Shim) UpdateContainerSchedulingState(*si.UpdateContainerSchedulingStateRequest) {}
