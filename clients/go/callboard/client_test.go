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

package callboard_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/yunikorn-core/callboard"
	"github.com/apache/yunikorn-core/internal/proxy"
	"github.com/apache/yunikorn-core/internal/record"
	"github.com/apache/yunikorn-core/internal/server"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/protobuf/proto"
)

// limit is the longest that anything may take.
const limit = 2 * time.Minute

// shim notes what it is told, and has a part of state dumps.
type shim struct{ *record.Shim }

func newShim() *shim { return &shim{record.New()} }

func (s *shim) GetStateDump() (string, error) { return `{"cache":"of the shim"}`, nil }

// until waits until it is so.
func (s *shim) until(t *testing.T, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	must(t, s.Until(ctx, what, so))
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func client(t *testing.T, options callboard.Options) *callboard.Client {
	t.Helper()
	if options.Logger == nil {
		options.Logger = quiet()
	}
	if options.OnLost == nil {
		options.OnLost = func(err error) { t.Errorf("lost: %v", err) }
	}
	c, err := callboard.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

func register(t *testing.T, c *callboard.Client, s *shim, extra map[string]string) {
	t.Helper()
	request := &si.RegisterResourceManagerRequest{RmID: "rm-1", PolicyGroup: "queues", Config: record.Config, ExtraConfig: extra}
	if _, err := c.RegisterResourceManager(request, s); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func nodes(t *testing.T, c *callboard.Client, count int, room int64) {
	t.Helper()
	must(t, c.UpdateNode(record.Nodes("rm-1", count, room)))
}

func application(t *testing.T, c *callboard.Client, id string) {
	t.Helper()
	must(t, c.UpdateApplication(&si.ApplicationRequest{RmID: "rm-1", New: []*si.AddApplicationRequest{record.Application(id, "root.a")}}))
}

func ask(t *testing.T, c *callboard.Client, app, key string, size int64) {
	t.Helper()
	must(t, c.UpdateAllocation(&si.AllocationRequest{RmID: "rm-1", Allocations: []*si.Allocation{record.Ask(app, key, size)}}))
}

func flush(t *testing.T, c *callboard.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	must(t, c.Flush(ctx))
}

func TestAnAskFollowsItsApplicationAndResponsesComeOneAtATime(t *testing.T) {
	running := server.Start(t)
	c, s := client(t, callboard.Options{Addrs: []string{running.GRPC}}), newShim()
	register(t, c, s, record.Unconstrained)
	nodes(t, c, 4, 1_000_000)
	const count = 2_000
	for n := range count {
		app := fmt.Sprintf("app-%d", n)
		application(t, c, app)
		ask(t, c, app, fmt.Sprintf("k%d", n), 10)
	}
	flush(t, c)
	s.until(t, "placed", func() bool { return len(s.Placed) == count })
	s.Lock()
	defer s.Unlock()
	if len(s.Rejected) > 0 || len(s.Twice) > 0 || s.SideBySide() || len(s.Applications) != count || len(s.Nodes) != 4 {
		t.Errorf("rejected %v, twice %v, side by side %v, %d applications, nodes %v", s.Rejected, s.Twice, s.SideBySide(), len(s.Applications), s.Nodes)
	}
}

func TestAServerThatHangsIsLeftForTheNextAddress(t *testing.T) {
	running := server.Start(t)
	hangs, good := proxy.Start(t, running.GRPC), proxy.Start(t, running.GRPC)
	addrs := []string{hangs.Addr, good.Addr}
	c, s := client(t, callboard.Options{Addrs: addrs}), newShim()
	register(t, c, s, record.Unconstrained)
	nodes(t, c, 1, 100)
	application(t, c, "app")
	flush(t, c)
	hangs.Hang()
	began := time.Now()
	ask(t, c, "app", "k0", 10)
	s.until(t, "placed", func() bool { return s.Placed["k0"] != "" })
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	must(t, c.Unregister(ctx))
	// Long before the system would give the connection up; and so does who comes anew.
	c = client(t, callboard.Options{Addrs: addrs})
	register(t, c, newShim(), record.Unconstrained)
	if took := time.Since(began); took > 35*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestPredicatesEventsDumpsAndConfigurations(t *testing.T) {
	running := server.Start(t)
	counted := &metrics{}
	c, s := client(t, callboard.Options{Addrs: []string{running.GRPC}, Web: running.HTTP, Metrics: counted}), newShim()
	s.Fits = func(args *si.PredicatesArgs) error {
		if args.NodeID != "n7" {
			return errors.New("only n7 will do")
		}
		return nil
	}
	register(t, c, s, nil)
	nodes(t, c, 10, 1_000)
	application(t, c, "app")
	ask(t, c, "app", "k", 10)
	s.until(t, "placed", func() bool { return s.Placed["k"] == "n7" })
	s.until(t, "events", func() bool { return s.Events > 0 })

	err := c.UpdateConfiguration(&si.UpdateConfigurationRequest{RmID: "rm-1", PolicyGroup: "queues", Config: "partitions: nonsense"})
	if err == nil || !strings.Contains(err.Error(), "callboard: ") {
		t.Errorf("a bad configuration was taken: %v", err)
	}
	more := record.Config + "          - name: b\n"
	must(t, c.UpdateConfiguration(&si.UpdateConfigurationRequest{RmID: "rm-1", PolicyGroup: "queues", Config: more}))
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	must(t, c.Validate(ctx, more))
	if err := c.Validate(ctx, "partitions: nonsense"); err == nil {
		t.Error("a bad configuration is valid")
	}
	must(t, c.Heartbeat([]string{"n0", "n1"}))
	must(t, c.Unregister(ctx))
	if err := c.UpdateNode(&si.NodeRequest{Nodes: []*si.NodeInfo{{NodeID: "x"}}}); err == nil {
		t.Error("taken after the session was ended")
	}
	stats := c.Stats()
	if stats.Requests == 0 || stats.Callbacks == 0 || stats.Predicates == 0 || counted.get("Predicates") != stats.Predicates {
		t.Errorf("not counted: %+v", stats)
	}
}

func TestRequestsArePartOfTheirTraces(t *testing.T) {
	var mu sync.Mutex
	var spans []byte
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		mu.Lock()
		defer mu.Unlock()
		spans = append(spans, body...)
	}))
	defer collector.Close()
	running := server.Start(t, "--otlp-endpoint", collector.URL)
	c, s := client(t, callboard.Options{Addrs: []string{running.GRPC}, Traceparent: func(request proto.Message) string {
		if request, ok := request.(*si.AllocationRequest); ok {
			return "00-" + hex.EncodeToString([]byte("trace of "+request.Allocations[0].ApplicationID)) + "-00f067aa0ba902b7-01"
		}
		return ""
	}}), newShim()
	register(t, c, s, nil)
	nodes(t, c, 1, 1_000)
	application(t, c, "the-app")
	ask(t, c, "the-app", "k", 10)
	s.until(t, "placed", func() bool { return s.Placed["k"] != "" })
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		mu.Lock()
		told := bytes.Contains(spans, []byte("trace of the-app"))
		mu.Unlock()
		if told {
			return
		}
		if time.Now().After(end) {
			t.Fatal("no span is of the trace")
		}
	}
}

func TestUnconstrainedAsksShareCalls(t *testing.T) {
	running := server.Start(t)
	c, s := client(t, callboard.Options{Addrs: []string{running.GRPC}}), newShim()
	// One in three nodes refuses; each ask has to be answered by itself.
	s.Fits = func(args *si.PredicatesArgs) error {
		var node int
		if _, err := fmt.Sscanf(args.NodeID, "n%d", &node); err != nil || node%3 == 0 {
			return errors.New("not on every third")
		}
		return nil
	}
	register(t, c, s, record.Unconstrained)
	nodes(t, c, 30, 10_000)
	application(t, c, "app")
	const count = 2_000
	request := &si.AllocationRequest{RmID: "rm-1"}
	for n := range count {
		request.Allocations = append(request.Allocations, record.Ask("app", fmt.Sprintf("k%d", n), 10))
	}
	must(t, c.UpdateAllocation(request))
	s.until(t, "placed", func() bool { return len(s.Placed) == count })
	s.Lock()
	defer s.Unlock()
	for key, node := range s.Placed {
		var n int
		if _, err := fmt.Sscanf(node, "n%d", &n); err != nil || n%3 == 0 {
			t.Fatalf("%s is on %s, which was refused", key, node)
		}
	}
	stats := c.Stats()
	if stats.Predicates < count || stats.Questions > count/10 {
		t.Errorf("%d pairs of ask and node in %d calls", stats.Predicates, stats.Questions)
	}
	t.Logf("%d pairs of ask and node in %d calls", stats.Predicates, stats.Questions)
}

func TestWhatIsLargerThanTheServerTakesGoesInParts(t *testing.T) {
	running := server.Start(t)
	c, s := client(t, callboard.Options{Addrs: []string{running.GRPC}}), newShim()
	register(t, c, s, map[string]string{"rm.maxItems": "50", "rm.itemsInFlight": "20"})
	nodes(t, c, 500, 1_000)
	application(t, c, "app")
	request := &si.AllocationRequest{RmID: "rm-1"}
	for n := range 300 {
		request.Allocations = append(request.Allocations, record.Ask("app", fmt.Sprintf("k%d", n), 10))
	}
	must(t, c.UpdateAllocation(request))
	s.until(t, "placed", func() bool { return len(s.Placed) == 300 && len(s.Nodes) == 500 })
	many := &si.NodeInfo{NodeID: "many", Action: si.NodeInfo_CREATE, SchedulableResource: record.Memory(1), Attributes: map[string]string{}}
	for n := range 600 {
		many.Attributes[fmt.Sprint(n)] = "x"
	}
	if err := c.UpdateNode(&si.NodeRequest{Nodes: []*si.NodeInfo{many}}); err == nil || !strings.Contains(err.Error(), "the server takes at most") {
		t.Errorf("an item that is too large: %v", err)
	}
	if err := c.UpdateNode(&si.NodeRequest{Nodes: []*si.NodeInfo{{NodeID: "\xff"}}}); err == nil {
		t.Error("taken: a text that is none")
	}
}

func TestWhatIsTooLargeOnceTheServerTakesLessGoesInParts(t *testing.T) {
	running := server.Start(t)
	c, s := client(t, callboard.Options{Addrs: []string{running.GRPC}}), newShim()
	register(t, c, s, nil)
	nodes(t, c, 10, 1_000)
	application(t, c, "app")
	must(t, c.Flush(t.Context()))
	request := &si.AllocationRequest{RmID: "rm-1"}
	for n := range 300 {
		request.Allocations = append(request.Allocations, record.Ask("app", fmt.Sprintf("k%d", n), 10))
	}
	less := make(chan error)
	go func() {
		less <- c.UpdateConfiguration(&si.UpdateConfigurationRequest{RmID: "rm-1", Config: record.Config, ExtraConfig: map[string]string{"rm.maxItems": "50"}})
	}()
	// Cut before it is known that the server takes less.
	time.Sleep(time.Millisecond)
	must(t, c.UpdateAllocation(request))
	must(t, <-less)
	s.until(t, "placed", func() bool { return len(s.Placed) == 300 })
}

func TestTheExampleRuns(t *testing.T) {
	t.Setenv("CALLBOARD_EXAMPLE_ADDR", server.Start(t).GRPC)
	Example()
}

func TestTwoHundredCutConnectionsLoseAndDoubleNothing(t *testing.T) {
	cuts := 200
	if testing.Short() {
		cuts = 20
	}
	running := server.Start(t)
	carrier := proxy.Start(t, running.GRPC)
	c, s := client(t, callboard.Options{Addrs: []string{carrier.Addr}}), newShim()
	register(t, c, s, record.Unconstrained)
	nodes(t, c, 8, 1<<40)
	stop := make(chan struct{})
	applications := 0
	var asked []string
	var load sync.WaitGroup
	load.Add(1)
	go func() {
		defer load.Done()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			// Out of order an ask would be rejected.
			key, app := fmt.Sprintf("k%d", n), fmt.Sprintf("app-%d", n/10)
			if n%10 == 0 {
				application(t, c, app)
				applications++
			}
			if err := c.UpdateAllocation(&si.AllocationRequest{RmID: "rm-1", Allocations: []*si.Allocation{record.Ask(app, key, 10)}}); err != nil {
				t.Errorf("ask %s: %v", key, err)
				return
			}
			asked = append(asked, key)
			time.Sleep(500 * time.Microsecond)
		}
	}()
	begun := time.Now()
	for carrier.Cuts() < cuts && time.Since(begun) < 6*limit {
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		carrier.Cut()
	}
	close(stop)
	load.Wait()
	flush(t, c)
	s.until(t, "placed", func() bool { return len(s.Order) >= len(asked) })
	s.Lock()
	defer s.Unlock()
	if carrier.Cuts() < cuts {
		t.Errorf("only %d connections were cut", carrier.Cuts())
	}
	slices.Sort(asked)
	slices.Sort(s.Order)
	if !slices.Equal(s.Order, asked) || len(s.Twice) > 0 || len(s.Rejected) > 0 || s.SideBySide() || len(s.Applications) != applications || len(s.Nodes) != 8 {
		t.Errorf("asked %d, placed %d, applications %d of %d, twice %v, rejected %v, side by side %v", len(asked), len(s.Order),
			len(s.Applications), applications, s.Twice, s.Rejected, s.SideBySide())
	}
	t.Logf("%d cuts, %d asks, %+v", carrier.Cuts(), len(asked), c.Stats())
}

func TestABacklogGoesOutAfterALongOutage(t *testing.T) {
	running := server.Start(t)
	carrier := proxy.Start(t, running.GRPC)
	c, s := client(t, callboard.Options{Addrs: []string{"127.0.0.1:1", carrier.Addr}, RequestQueue: 30_000}), newShim()
	register(t, c, s, record.Unconstrained)
	nodes(t, c, 8, 1<<40)
	application(t, c, "app")
	flush(t, c)
	carrier.To("127.0.0.1:1")
	carrier.Cut()
	const count = 20_000
	for n := range count {
		ask(t, c, "app", fmt.Sprintf("k%d", n), 10)
	}
	carrier.To(running.GRPC)
	flush(t, c)
	s.until(t, "placed", func() bool { return len(s.Order) == count })
	s.Lock()
	defer s.Unlock()
	if len(s.Twice)+len(s.Rejected) > 0 {
		t.Errorf("twice %v, rejected %v", s.Twice, s.Rejected)
	}
}

func TestASessionThatIsGoneIsTold(t *testing.T) {
	first, second := server.Start(t), server.Start(t)
	carrier := proxy.Start(t, first.GRPC)
	lost := make(chan error, 1)
	c, s := client(t, callboard.Options{Addrs: []string{carrier.Addr}, OnLost: func(err error) { lost <- err }}), newShim()
	register(t, c, s, nil)
	nodes(t, c, 1, 100)
	s.until(t, "node", func() bool { return len(s.Nodes) == 1 })
	carrier.To(second.GRPC)
	carrier.Cut()
	select {
	case err := <-lost:
		if !errors.Is(err, callboard.ErrLost) || !strings.Contains(err.Error(), "not registered") {
			t.Errorf("told: %v", err)
		}
	case <-time.After(limit):
		t.Fatal("not told")
	}
	if err := c.UpdateNode(&si.NodeRequest{Nodes: []*si.NodeInfo{{NodeID: "n"}}}); !errors.Is(err, callboard.ErrLost) {
		t.Errorf("afterwards: %v", err)
	}
}

func TestASessionThatIsGoneIsReplayed(t *testing.T) {
	first, second := server.Start(t), server.Start(t)
	carrier := proxy.Start(t, first.GRPC)
	c, s := client(t, callboard.Options{Addrs: []string{carrier.Addr}, Replay: true}), newShim()
	register(t, c, s, nil)
	nodes(t, c, 3, 100)
	application(t, c, "app")
	for n := range 30 {
		ask(t, c, "app", fmt.Sprintf("k%d", n), 10)
	}
	// What has no room yet is asked for again, what was given back is not.
	ask(t, c, "app", "waits", 20)
	s.until(t, "placed", func() bool { return len(s.Placed) == 30 })
	release := func(key string) {
		must(t, c.UpdateAllocation(record.Release("rm-1", "app", key, si.TerminationType_STOPPED_BY_RM)))
	}
	s.Lock()
	node := s.Placed["k5"]
	var beside string
	for key, at := range s.Placed {
		if at == node && key != "k5" {
			beside = key
		}
	}
	before := map[string]string{}
	for key, at := range s.Placed {
		before[key] = at
	}
	s.Unlock()
	release("k5")
	flush(t, c)
	carrier.To(second.GRPC)
	carrier.Cut()
	for begun := time.Now(); c.Stats().Replays == 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > limit {
			t.Fatal("not replayed")
		}
	}
	s.Lock()
	if len(s.Twice) > 0 || len(s.Rejected) > 0 || len(s.Nodes) != 3 || len(s.Applications) != 1 || s.Placed["waits"] != "" {
		t.Errorf("told again: twice %v, rejected %v, nodes %v, applications %v, waits at %q", s.Twice, s.Rejected, s.Nodes, s.Applications, s.Placed["waits"])
	}
	s.Unlock()
	// Both servers agree on where things are: room for it comes only on the node where two were given back.
	release(beside)
	s.until(t, "the one that waited", func() bool { return s.Placed["waits"] != "" })
	s.Lock()
	defer s.Unlock()
	if s.Placed["waits"] != node || len(s.Twice) > 0 {
		t.Errorf("placed on %s, where %s had room; twice %v", s.Placed["waits"], node, s.Twice)
	}
}

func TestAReplayBringsAnswersThatTheShimHasNotHad(t *testing.T) {
	first, second := server.Start(t), server.Start(t)
	carrier := proxy.Start(t, first.GRPC)
	c, s := client(t, callboard.Options{Addrs: []string{carrier.Addr}, Replay: true}), newShim()
	register(t, c, s, nil)
	nodes(t, c, 1, 100)
	application(t, c, "known")
	s.until(t, "known", func() bool { return len(s.Applications) == 1 && len(s.Nodes) == 1 })
	carrier.To("127.0.0.1:1")
	carrier.Cut()
	// Nobody has answered these when the session turns out to be gone.
	must(t, c.UpdateNode(&si.NodeRequest{RmID: "rm-1", Nodes: []*si.NodeInfo{
		{NodeID: "late", Action: si.NodeInfo_CREATE, SchedulableResource: record.Memory(100)},
	}}))
	application(t, c, "late")
	there := record.Ask("late", "there", 10)
	there.NodeID = "late"
	must(t, c.UpdateAllocation(&si.AllocationRequest{RmID: "rm-1", Allocations: []*si.Allocation{there}}))
	carrier.To(second.GRPC)
	s.until(t, "told", func() bool { return len(s.Applications) > 1 && len(s.Nodes) > 1 && s.Placed["there"] != "" })
	flush(t, c)
	s.Lock()
	defer s.Unlock()
	if !slices.Equal(s.Applications, []string{"known", "late"}) || !slices.Equal(s.Nodes, []string{"n0", "late"}) || len(s.Rejected) > 0 {
		t.Errorf("applications %v, nodes %v, rejected %v", s.Applications, s.Nodes, s.Rejected)
	}
}

func TestBadOptionsAndRegistrationsAreToldAtOnce(t *testing.T) {
	if _, err := callboard.New(callboard.Options{}); err == nil {
		t.Error("no address")
	}
	if _, err := callboard.New(callboard.Options{Addrs: []string{"x:1"}, TokenFile: "/nowhere"}); err == nil {
		t.Error("no token")
	}
	running := server.Start(t)
	c, s := client(t, callboard.Options{Addrs: []string{"127.0.0.1:1", running.GRPC}}), newShim()
	if err := c.UpdateNode(&si.NodeRequest{}); !errors.Is(err, callboard.ErrNotRegistered) {
		t.Errorf("before a registration: %v", err)
	}
	_, err := c.RegisterResourceManager(&si.RegisterResourceManagerRequest{RmID: "rm-1", Config: "partitions: nonsense"}, s)
	if err == nil || !strings.Contains(err.Error(), "InvalidArgument") {
		t.Errorf("a bad configuration: %v", err)
	}
	register(t, c, s, nil)
	nodes(t, c, 1, 10)
	s.until(t, "node", func() bool { return len(s.Nodes) == 1 })
	// Again: what was there is gone.
	register(t, c, s, nil)
	nodes(t, c, 1, 10)
	s.until(t, "node", func() bool { return len(s.Nodes) == 2 })
	c.Stop()
	if err := c.UpdateNode(&si.NodeRequest{}); !errors.Is(err, callboard.ErrStopped) {
		t.Errorf("after the end: %v", err)
	}
	slowly, _ := callboard.New(callboard.Options{Addrs: []string{"127.0.0.1:1"}, ConnectTimeout: time.Millisecond, Logger: quiet()})
	if _, err := slowly.RegisterResourceManager(&si.RegisterResourceManagerRequest{RmID: "rm-1"}, s); err == nil || !strings.Contains(err.Error(), "no server of 127.0.0.1:1 answers") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestUnregisteringIsNotLosing(t *testing.T) {
	c := client(t, callboard.Options{Addrs: []string{server.Start(t).GRPC}})
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for range 20 {
		register(t, c, newShim(), nil)
		must(t, c.Unregister(ctx))
	}
}

func TestEventsThatAShimIsTooSlowForAreCounted(t *testing.T) {
	running := server.Start(t)
	c, s := client(t, callboard.Options{Addrs: []string{running.GRPC}, EventQueue: 1}), newShim()
	hold := make(chan struct{})
	held := &slowEvents{shim: s, hold: hold}
	if _, err := c.RegisterResourceManager(&si.RegisterResourceManagerRequest{RmID: "rm-1", Config: record.Config}, held); err != nil {
		t.Fatal(err)
	}
	nodes(t, c, 1, 1_000_000)
	for n := 0; c.Stats().EventsDropped == 0; n++ {
		app := fmt.Sprintf("app-%d", n)
		application(t, c, app)
		ask(t, c, app, app, 1)
		s.until(t, "placed", func() bool { return s.Placed[app] != "" })
		time.Sleep(20 * time.Millisecond)
	}
	close(hold)
}

type slowEvents struct {
	*shim
	hold chan struct{}
}

func (s *slowEvents) SendEvent([]*si.EventRecord) { <-s.hold }

type metrics struct {
	mu     sync.Mutex
	counts map[string]uint64
}

func (m *metrics) Add(name string, n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts == nil {
		m.counts = map[string]uint64{}
	}
	m.counts[name] += n
}

func (m *metrics) get(name string) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[name]
}
