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
	"time"

	"github.com/apache/yunikorn-core/callboard"
	"github.com/apache/yunikorn-core/internal/record"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// fault ends a check.
type fault struct{ error }

// trial is a check under way: a resource manager, and what it was told.
type trial struct {
	settings
	ctx    context.Context
	rm     string
	client *callboard.Client
	*record.Shim
}

func (t *trial) fail(format string, arguments ...any) {
	panic(fault{fmt.Errorf(format, arguments...)})
}

func (t *trial) must(err error) {
	if err != nil {
		panic(fault{err})
	}
}

// register begins a session, over a client that goes to this address.
func (t *trial) register(addr string, extra map[string]string) {
	if t.client != nil {
		t.client.Stop()
	}
	shim := record.New()
	t.Shim = shim
	var err error
	t.client, err = callboard.New(callboard.Options{
		Addrs: []string{addr}, TLS: t.tls, TokenFile: t.tokenFile, Logger: slog.New(slog.DiscardHandler),
		ConnectTimeout: t.timeout,
		OnLost: func(err error) {
			shim.Note(func() { shim.Lost = err })
		},
	})
	t.must(err)
	_, err = t.client.RegisterResourceManager(&si.RegisterResourceManagerRequest{
		RmID: t.rm, PolicyGroup: "queues", Version: "shimcheck", Config: record.Config, ExtraConfig: extra,
	}, shim)
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
	t.client = nil
}

// until waits for a fact.
func (t *trial) until(what string, so func() bool) { t.must(t.Until(t.ctx, what, so)) }

// addNodes brings nodes n0, n1 … with so much room each, and waits until they are there.
func (t *trial) addNodes(count int, room int64) {
	t.must(t.client.UpdateNode(record.Nodes(t.rm, count, room)))
	t.until("nodes", func() bool { return len(t.Nodes) == count })
}

func (t *trial) submit(id, queue string, gang int64) {
	new := record.Application(id, queue)
	if gang > 0 {
		new.PlaceholderAsk, new.GangSchedulingStyle, new.ExecutionTimeoutMilliSeconds = record.Memory(gang), "Soft", 600_000
	}
	t.must(t.client.UpdateApplication(&si.ApplicationRequest{RmID: t.rm, New: []*si.AddApplicationRequest{new}}))
}

func (t *trial) ask(asks ...*si.Allocation) {
	t.must(t.client.UpdateAllocation(&si.AllocationRequest{RmID: t.rm, Allocations: asks}))
}

func (t *trial) release(app, key string, why si.TerminationType) {
	t.must(t.client.UpdateAllocation(record.Release(t.rm, app, key, why)))
}
