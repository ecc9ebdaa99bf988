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
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/apache/yunikorn-core/callboardv1"
	"github.com/apache/yunikorn-core/internal/record"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// check is one thing that a server does. What it gives is said in the table; it fails by ending the trial.
type check struct {
	name string
	run  func(*trial) string
}

var checks = []check{
	{"plain streams", plainStreams},
	{"life cycle", lifeCycle},
	{"order", order},
	{"gang", gang},
	{"predicates", predicates},
	{"predicates together", together},
	{"quota", quota},
	{"cut connections", cuts},
	{"recovery", recovery},
	{"limits", limits},
}

// si.v1 alone: what every server of the interface has.
func plainStreams(t *trial) string {
	conn, err := t.dial()
	t.must(err)
	defer func() { _ = conn.Close() }()
	scheduler := si.NewSchedulerClient(conn)
	_, err = scheduler.RegisterResourceManager(t.ctx, &si.RegisterResourceManagerRequest{RmID: t.rm, PolicyGroup: "queues", Config: record.Config})
	t.must(err)
	defer func() {
		_, _ = callboardv1.NewSchedulerExtensionClient(conn).Unregister(t.ctx, &callboardv1.UnregisterRequest{RmId: t.rm})
	}()
	nodes, err := scheduler.UpdateNode(t.ctx)
	t.must(err)
	t.must(nodes.Send(&si.NodeRequest{RmID: t.rm, Nodes: []*si.NodeInfo{{NodeID: "n0", Action: si.NodeInfo_CREATE, SchedulableResource: record.Memory(100)}}}))
	answer, err := nodes.Recv()
	t.must(err)
	if len(answer.Accepted) != 1 {
		t.fail("the node was not accepted: %v", answer)
	}
	applications, err := scheduler.UpdateApplication(t.ctx)
	t.must(err)
	t.must(applications.Send(&si.ApplicationRequest{RmID: t.rm, New: []*si.AddApplicationRequest{{
		ApplicationID: "app", QueueName: "root.a", PartitionName: "default", Ugi: &si.UserGroupInformation{User: "shimcheck"},
	}}}))
	accepted, err := applications.Recv()
	t.must(err)
	if len(accepted.Accepted) != 1 {
		t.fail("the application was not accepted: %v", accepted)
	}
	allocations, err := scheduler.UpdateAllocation(t.ctx)
	t.must(err)
	t.must(allocations.Send(&si.AllocationRequest{RmID: t.rm, Allocations: []*si.Allocation{record.Ask("app", "k", 10)}}))
	for {
		told, err := allocations.Recv()
		t.must(err)
		if len(told.RejectedAllocations) > 0 {
			t.fail("rejected: %v", told.RejectedAllocations)
		}
		if len(told.New) > 0 {
			return "placed on " + told.New[0].NodeID
		}
	}
}

func lifeCycle(t *trial) string {
	t.register(t.addr, nil)
	t.addNodes(2, 100)
	t.submit("app", "root.a", 0)
	t.ask(record.Ask("app", "k0", 60), record.Ask("app", "k1", 60), record.Ask("app", "waits", 60))
	t.until("two are placed", func() bool { return len(t.Placed) == 2 })
	t.release("app", "k0", si.TerminationType_STOPPED_BY_RM)
	t.until("the third is placed when the first has gone", func() bool { return t.Placed["waits"] != "" && t.Placed["waits"] == t.Placed["k0"] })
	t.must(t.client.UpdateNode(&si.NodeRequest{RmID: t.rm, Nodes: []*si.NodeInfo{{NodeID: t.Placed["k1"], Action: si.NodeInfo_DECOMISSION}}}))
	t.until("what was on a node goes with it", func() bool { _, gone := t.Released["k1"]; return gone })
	t.must(t.client.UpdateApplication(&si.ApplicationRequest{RmID: t.rm, Remove: []*si.RemoveApplicationRequest{{ApplicationID: "app", PartitionName: "default"}}}))
	t.submit("app", "root.a", 0)
	t.must(t.client.Flush(t.ctx))
	t.register(t.addr, nil)
	t.addNodes(1, 100)
	t.submit("app", "root.a", 0)
	t.ask(record.Ask("app", "k", 100))
	t.until("a new session begins empty", func() bool { return t.Placed["k"] == "n0" })
	return "placed, released, removed, registered again"
}

func order(t *trial) string {
	t.register(t.addr, record.Unconstrained)
	t.addNodes(1, 1<<40)
	const count = 1_000
	var asked []string
	for n := range count {
		app := fmt.Sprintf("app-%d", n)
		t.submit(app, "root.a", 0)
		t.ask(record.Ask(app, "k-"+app, 10))
		asked = append(asked, "k-"+app)
	}
	t.until("all are placed", func() bool { return len(t.Order)+len(t.Rejected) >= count })
	if len(t.Rejected) > 0 || len(t.Twice) > 0 {
		t.fail("%d of %d asks were rejected, such as %s; twice %v", len(t.Rejected), count, t.Rejected[:min(1, len(t.Rejected))], t.Twice)
	}
	slices.Sort(asked)
	if told := slices.Sorted(slices.Values(t.Order)); !slices.Equal(told, asked) {
		t.fail("%d were asked for, others were placed", count)
	}
	return fmt.Sprintf("%d applications, each followed by its ask: none rejected", count)
}

func gang(t *trial) string {
	t.register(t.addr, nil)
	t.addNodes(2, 100)
	const members = 4
	t.submit("app", "root.a", 10*members)
	for n := range members {
		placeholder := record.Ask("app", fmt.Sprintf("ph%d", n), 10)
		placeholder.TaskGroupName, placeholder.Placeholder = "group", true
		t.ask(placeholder)
	}
	t.until("placeholders are placed", func() bool { return len(t.Placed) == members })
	for n := range members {
		real := record.Ask("app", fmt.Sprintf("real%d", n), 10)
		real.TaskGroupName = "group"
		t.ask(real)
	}
	confirmed := map[string]bool{}
	for len(confirmed) < members {
		var next string
		t.until("placeholders are to be replaced", func() bool {
			for key, why := range t.Released {
				if !confirmed[key] && why == si.TerminationType_PLACEHOLDER_REPLACED {
					next = key
					return true
				}
			}
			return false
		})
		t.Lock()
		for key := range t.Placed {
			if strings.HasPrefix(key, "real") && len(t.Placed) > members+len(confirmed) {
				t.Unlock()
				t.fail("%s was placed before its placeholder was confirmed", key)
			}
		}
		t.Unlock()
		confirmed[next] = true
		t.release("app", next, si.TerminationType_PLACEHOLDER_REPLACED)
		t.until("the member is placed", func() bool { return len(t.Placed) >= members+len(confirmed) })
	}
	return fmt.Sprintf("%d members took the places of their placeholders", members)
}

func predicates(t *trial) string {
	t.register(t.addr, nil)
	// One of a kind on each node: whoever asks about a placement has to know those before it.
	var mu sync.Mutex
	t.Lock()
	t.Fits = func(args *si.PredicatesArgs) error {
		mu.Lock()
		defer mu.Unlock()
		t.Lock()
		defer t.Unlock()
		for key, node := range t.Placed {
			if node == args.NodeID && key != args.AllocationKey {
				return errors.New("another one is there")
			}
		}
		return nil
	}
	t.Unlock()
	const count = 20
	t.addNodes(count, 1_000)
	t.submit("app", "root.a", 0)
	for n := range count + 5 {
		t.ask(record.Ask("app", fmt.Sprintf("k%d", n), 10))
	}
	t.until("as many are placed as there are nodes", func() bool { return len(t.Placed) >= count })
	t.must(t.client.Flush(t.ctx))
	t.Lock()
	defer t.Unlock()
	on := map[string]string{}
	for key, node := range t.Placed {
		if other, taken := on[node]; taken {
			panic(fault{fmt.Errorf("%s and %s are both on %s, which the shim forbids", key, other, node)})
		}
		on[node] = key
	}
	return fmt.Sprintf("%d placed, one on each node, %d questions", len(t.Placed), t.Asked)
}

// Asks that have nothing to do with each other are asked about side by side, and where the server can, several in a call.
func together(t *trial) string {
	t.register(t.addr, record.Unconstrained)
	t.Lock()
	t.Fits = func(args *si.PredicatesArgs) error {
		if args.NodeID == "n0" {
			return errors.New("not on the first")
		}
		return nil
	}
	t.Unlock()
	t.addNodes(10, 1<<40)
	t.submit("app", "root.a", 0)
	const count = 500
	request := &si.AllocationRequest{RmID: t.rm}
	for n := range count {
		request.Allocations = append(request.Allocations, record.Ask("app", fmt.Sprintf("k%d", n), 10))
	}
	t.must(t.client.UpdateAllocation(request))
	t.until("all are placed", func() bool { return len(t.Placed) == count })
	t.Lock()
	defer t.Unlock()
	for key, node := range t.Placed {
		if node == "n0" {
			panic(fault{fmt.Errorf("%s is on %s, which the shim refused", key, node)})
		}
	}
	return fmt.Sprintf("%d placed, %d questions in %d calls", count, t.Asked, t.client.Stats().Questions)
}

func quota(t *trial) string {
	t.register(t.addr, nil)
	t.addNodes(1, 1_000)
	t.submit("app", "root.small", 0)
	for n := range 20 {
		t.ask(record.Ask("app", fmt.Sprintf("k%d", n), 10))
	}
	t.submit("other", "root.a", 0)
	t.ask(record.Ask("other", "after", 10))
	t.until("what the quota allows is placed", func() bool { return len(t.Placed) >= 11 && t.Placed["after"] != "" })
	t.must(t.client.Flush(t.ctx))
	t.Lock()
	defer t.Unlock()
	if len(t.Placed) != 11 {
		panic(fault{fmt.Errorf("%d were placed, where the queue has room for 10 and another had 1", len(t.Placed))})
	}
	return "10 of 20 placed in a queue with room for 10"
}

// cuts has connections that break: nothing is lost, and nothing comes twice.
func cuts(t *trial) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	t.must(err)
	defer func() { _ = listener.Close() }()
	var mu sync.Mutex
	var open []net.Conn
	cut := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range open {
			_ = conn.Close()
		}
		open = nil
	}
	defer cut()
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", t.addr)
			if err != nil {
				_ = from.Close()
				continue
			}
			mu.Lock()
			open = append(open, from, to)
			mu.Unlock()
			go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
			go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
		}
	}()
	if t.tls != nil && t.tls.ServerName == "" {
		host, _, _ := net.SplitHostPort(t.addr)
		t.tls = t.tls.Clone()
		t.tls.ServerName = host
	}
	// Before the way to the server is closed: it unregisters over it.
	defer t.cleanUp()
	t.register(listener.Addr().String(), record.Unconstrained)
	t.addNodes(1, 1<<40)
	t.submit("app", "root.a", 0)
	const count, every = 1_000, 100
	var asked []string
	for n := range count {
		key := fmt.Sprintf("k%d", n)
		t.ask(record.Ask("app", key, 10))
		asked = append(asked, key)
		if n%every == every-1 {
			t.until("some are placed", func() bool { return len(t.Placed) > n/2 })
			cut()
		}
	}
	t.until("all are placed", func() bool { return len(t.Placed) == count })
	slices.Sort(asked)
	if !slices.Equal(slices.Sorted(slices.Values(t.Order)), asked) || len(t.Twice) > 0 || len(t.Rejected) > 0 {
		t.fail("not each once: twice %v, rejected %v", t.Twice, t.Rejected)
	}
	return fmt.Sprintf("%d asks over %d connections: each placed once", count, t.client.Stats().Reconnects+1)
}

// recovery is what a shim does that starts anew: it tells what is there, and that counts.
func recovery(t *trial) string {
	t.register(t.addr, nil)
	t.must(t.client.UpdateNode(&si.NodeRequest{RmID: t.rm, Nodes: []*si.NodeInfo{{NodeID: "n0", Action: si.NodeInfo_CREATE_DRAIN, SchedulableResource: record.Memory(100)}}}))
	t.until("the node is there", func() bool { return len(t.Nodes) == 1 })
	t.submit("app", "root.a", 0)
	for n := range 7 {
		there := record.Ask("app", fmt.Sprintf("there%d", n), 10)
		there.NodeID = "n0"
		t.ask(there)
	}
	t.until("what is there is confirmed", func() bool { return len(t.Placed) == 7 })
	for n := range 5 {
		t.ask(record.Ask("app", fmt.Sprintf("new%d", n), 10))
	}
	t.must(t.client.Flush(t.ctx))
	t.Lock()
	early := len(t.Placed) - 7
	t.Unlock()
	if early != 0 {
		t.fail("%d are placed before the node takes anything", early)
	}
	t.must(t.client.UpdateNode(&si.NodeRequest{RmID: t.rm, Nodes: []*si.NodeInfo{{NodeID: "n0", Action: si.NodeInfo_DRAIN_TO_SCHEDULABLE}}}))
	t.until("what has room is placed", func() bool { return len(t.Placed) >= 10 })
	t.release("app", "there0", si.TerminationType_STOPPED_BY_RM)
	t.until("and the next when one goes", func() bool { return len(t.Placed) >= 11 })
	return "7 were there, 3 had room, 1 more when one went"
}

func limits(t *trial) string {
	conn, err := t.dial()
	t.must(err)
	defer func() { _ = conn.Close() }()
	extension := callboardv1.NewSchedulerExtensionClient(conn)
	refused := func(what string, wanted codes.Code, requests ...*callboardv1.Request) {
		stream, err := extension.Requests(t.ctx)
		t.must(err)
		for _, request := range requests {
			t.must(stream.Send(request))
		}
		for err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) == codes.Unimplemented {
			panic(fault{err})
		}
		if status.Code(err) != wanted {
			t.fail("%s: %v, and not %v", what, err, wanted)
		}
	}
	refused("an unknown resource manager", codes.NotFound, &callboardv1.Request{RmId: t.rm})
	refused("no resource manager", codes.InvalidArgument, &callboardv1.Request{})
	bad := &si.RegisterResourceManagerRequest{RmID: t.rm, PolicyGroup: "queues", Config: "partitions: nonsense"}
	if _, err := si.NewSchedulerClient(conn).RegisterResourceManager(t.ctx, bad); status.Code(err) != codes.InvalidArgument {
		t.fail("a bad configuration: %v", err)
	}
	few := map[string]string{"rm.maxItems": "10"}
	_, err = si.NewSchedulerClient(conn).RegisterResourceManager(t.ctx, &si.RegisterResourceManagerRequest{
		RmID: t.rm, PolicyGroup: "queues", Config: record.Config, ExtraConfig: few,
	})
	t.must(err)
	open := &callboardv1.Request{RmId: t.rm}
	heartbeat := func(sequence, epoch uint64) *callboardv1.Request {
		return &callboardv1.Request{Sequence: sequence, Epoch: epoch, Request: &callboardv1.Request_Heartbeat{Heartbeat: &callboardv1.Heartbeat{}}}
	}
	refused("a gap", codes.OutOfRange, open, heartbeat(9, 0))
	refused("another epoch", codes.Aborted, open, heartbeat(1, 1<<40))
	refused("an empty request", codes.InvalidArgument, open, &callboardv1.Request{Sequence: 1})
	many := &si.NodeRequest{}
	for n := range 11 {
		many.Nodes = append(many.Nodes, &si.NodeInfo{NodeID: fmt.Sprint(n), Action: si.NodeInfo_CREATE})
	}
	refused("too many items", codes.ResourceExhausted, open,
		&callboardv1.Request{Sequence: 1, Request: &callboardv1.Request_Node{Node: many}})
	// None of these was taken: the number is still to come.
	stream, err := extension.Requests(t.ctx)
	t.must(err)
	t.must(stream.Send(&callboardv1.Request{RmId: t.rm}))
	t.must(stream.Send(heartbeat(1, 0)))
	for ack := (&callboardv1.Ack{}); ack.GetSequence() != 1; {
		ack, err = stream.Recv()
		t.must(err)
		if ack.MaxItems != 10 || ack.Credits == 0 {
			t.fail("limits are not told: %v", ack)
		}
	}
	// What is too large for one request goes in several.
	t.register(t.addr, few)
	t.addNodes(35, 10)
	return "bad requests are refused by name and take nothing"
}
