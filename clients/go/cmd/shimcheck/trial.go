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

package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/apache/yunikorn-core/callboard"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

const config = `partitions:
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

// fault ends a check.
type fault struct{ error }

// trial is a check under way: a resource manager, and what it was told.
type trial struct {
	settings
	ctx    context.Context
	rm     string
	client *callboard.Client

	mu       sync.Mutex
	changed  chan struct{}
	nodes    []string
	accepted map[string]bool
	// Where things are, and in which order they came there.
	placed   map[string]string
	order    []string
	released map[string]si.TerminationType
	rejected []string
	twice    []string
	lost     error
	asked    int
	fits     func(*si.PredicatesArgs) error
}

func (t *trial) fail(format string, arguments ...any) {
	panic(fault{fmt.Errorf(format, arguments...)})
}

func (t *trial) must(err error) {
	if err != nil {
		panic(fault{err})
	}
}

func (t *trial) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = make(chan struct{})
	t.nodes, t.order, t.rejected, t.twice = nil, nil, nil, nil
	t.accepted, t.placed, t.released = map[string]bool{}, map[string]string{}, map[string]si.TerminationType{}
}

// register begins a session, over a client that goes to this address.
func (t *trial) register(addr string, extra map[string]string) {
	if t.client != nil {
		t.client.Stop()
	}
	t.reset()
	var err error
	t.client, err = callboard.New(callboard.Options{
		Addrs: []string{addr}, TLS: t.tls, TokenFile: t.tokenFile, Logger: slog.New(slog.DiscardHandler),
		ConnectTimeout: t.timeout,
		OnLost: func(err error) {
			t.note(func() { t.lost = err })
		},
	})
	t.must(err)
	_, err = t.client.RegisterResourceManager(&si.RegisterResourceManagerRequest{
		RmID: t.rm, PolicyGroup: "queues", Version: "shimcheck", Config: config, ExtraConfig: extra,
	}, t)
	t.must(err)
}

func (t *trial) cleanUp() {
	if t.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = t.client.Unregister(ctx)
	t.client.Stop()
}

func (t *trial) note(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	close(t.changed)
	t.changed = make(chan struct{})
}

// until waits for a fact.
func (t *trial) until(what string, so func() bool) {
	for {
		t.mu.Lock()
		done, lost, changed := so(), t.lost, t.changed
		state := fmt.Sprintf("%d placed, %d released, rejected %.200v", len(t.placed), len(t.released), t.rejected)
		t.mu.Unlock()
		switch {
		case done:
			return
		case lost != nil:
			panic(fault{lost})
		}
		select {
		case <-changed:
		case <-t.ctx.Done():
			t.fail("%s: not within %v: %s", what, t.timeout, state)
		}
	}
}

func (t *trial) UpdateAllocation(response *si.AllocationResponse) error {
	t.note(func() {
		for _, new := range response.New {
			if _, known := t.placed[new.AllocationKey]; known {
				t.twice = append(t.twice, new.AllocationKey)
			}
			t.placed[new.AllocationKey] = new.NodeID
			t.order = append(t.order, new.AllocationKey)
		}
		for _, released := range response.Released {
			t.released[released.AllocationKey] = released.TerminationType
		}
		for _, rejected := range response.RejectedAllocations {
			t.rejected = append(t.rejected, rejected.AllocationKey+": "+rejected.Reason)
		}
	})
	return nil
}

func (t *trial) UpdateApplication(response *si.ApplicationResponse) error {
	t.note(func() {
		for _, accepted := range response.Accepted {
			t.accepted[accepted.ApplicationID] = true
		}
		for _, rejected := range response.Rejected {
			t.rejected = append(t.rejected, rejected.ApplicationID+": "+rejected.Reason)
		}
	})
	return nil
}

func (t *trial) UpdateNode(response *si.NodeResponse) error {
	t.note(func() {
		for _, accepted := range response.Accepted {
			t.nodes = append(t.nodes, accepted.NodeID)
		}
		for _, rejected := range response.Rejected {
			t.rejected = append(t.rejected, rejected.NodeID+": "+rejected.Reason)
		}
	})
	return nil
}

func (t *trial) Predicates(args *si.PredicatesArgs) error {
	t.mu.Lock()
	t.asked++
	fits := t.fits
	t.mu.Unlock()
	if fits == nil {
		return nil
	}
	return fits(args)
}

func (t *trial) PreemptionPredicates(*si.PreemptionPredicatesArgs) *si.PreemptionPredicatesResponse {
	return &si.PreemptionPredicatesResponse{}
}

func (t *trial) SendEvent([]*si.EventRecord) {}

func (t *trial) UpdateContainerSchedulingState(*si.UpdateContainerSchedulingStateRequest) {}

func memory(value int64) *si.Resource {
	return &si.Resource{Resources: map[string]*si.Quantity{"memory": {Value: value}}}
}

// addNodes brings nodes n0, n1 … with so much room each, and waits until they are there.
func (t *trial) addNodes(count int, room int64) {
	request := &si.NodeRequest{RmID: t.rm}
	for n := range count {
		request.Nodes = append(request.Nodes, &si.NodeInfo{NodeID: fmt.Sprintf("n%d", n), Action: si.NodeInfo_CREATE, SchedulableResource: memory(room)})
	}
	t.must(t.client.UpdateNode(request))
	t.until("nodes", func() bool { return len(t.nodes) == count })
}

func (t *trial) submit(id, queue string, gang int64) {
	new := &si.AddApplicationRequest{
		ApplicationID: id, QueueName: queue, PartitionName: "default", Ugi: &si.UserGroupInformation{User: "shimcheck", Groups: []string{"shimcheck"}},
	}
	if gang > 0 {
		new.PlaceholderAsk, new.GangSchedulingStyle, new.ExecutionTimeoutMilliSeconds = memory(gang), "Soft", 600_000
	}
	t.must(t.client.UpdateApplication(&si.ApplicationRequest{RmID: t.rm, New: []*si.AddApplicationRequest{new}}))
}

func (t *trial) ask(asks ...*si.Allocation) {
	t.must(t.client.UpdateAllocation(&si.AllocationRequest{RmID: t.rm, Allocations: asks}))
}

func (t *trial) release(app, key string, why si.TerminationType) {
	release := &si.AllocationRelease{PartitionName: "default", ApplicationID: app, AllocationKey: key, TerminationType: why}
	t.must(t.client.UpdateAllocation(&si.AllocationRequest{
		RmID: t.rm, Releases: &si.AllocationReleasesRequest{AllocationsToRelease: []*si.AllocationRelease{release}},
	}))
}

func asking(app, key string, size int64) *si.Allocation {
	return &si.Allocation{ApplicationID: app, AllocationKey: key, PartitionName: "default", ResourcePerAlloc: memory(size)}
}
