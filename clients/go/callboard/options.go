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
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"time"

	"google.golang.org/protobuf/proto"
)

// Options say how a client reaches its server, and what becomes of what it cannot carry on with.
type Options struct {
	// Addrs are the gRPC addresses of the server, or of several that share its log, as host:port. They are tried in turn.
	Addrs []string
	// TLS encrypts; nil does not, which is for the loopback.
	TLS *tls.Config
	// TokenFile holds the token (docs/access.md). It is read again when it changes.
	TokenFile string
	// Web is the base URL of the HTTP door, such as http://127.0.0.1:9080, for Validate only.
	Web string

	// OnLost is called once, on a goroutine of its own, when the session is gone for good. Calls of the API fail from then on. Nil
	// ends the process with status 1, so that the shim starts anew and recovers.
	OnLost func(error)
	// Replay registers again instead, and tells the server the nodes, applications, allocations and asks that there are.
	// OnLost is called where that fails.
	Replay bool

	// Metrics is told what is counted; nil is nobody. Stats has the same numbers.
	Metrics Metrics
	// Logger; nil is slog.Default.
	Logger *slog.Logger

	// Traceparent is asked for each *si.AllocationRequest, *si.ApplicationRequest and *si.NodeRequest that is handed in, on the
	// goroutine of the call, and gives the W3C traceparent of the trace that it is part of, or "" (docs/traces.md). Nil is "".
	Traceparent func(request proto.Message) string

	// PredicateWorkers is how many questions are put to the shim at a time; 0 is 8.
	PredicateWorkers int
	// EventQueue is how many batches of events and container states may wait for the shim; 0 is 10,000.
	EventQueue int
	// RequestQueue is how many items of requests may wait for the server; a call waits while there are more. 0 is 100,000.
	RequestQueue int
	// ConnectTimeout is how long a registration waits for a server to be there; 0 is a minute.
	ConnectTimeout time.Duration
	// AnswerTimeout is how long an update of the configuration waits for its outcome; 0 is a minute.
	AnswerTimeout time.Duration
}

// Metrics is told what a client counts. Names are those of the fields of [Stats].
type Metrics interface {
	Add(name string, n uint64)
}

// Errors of a client. Others come from the server, as gRPC statuses.
var (
	ErrNotRegistered = errors.New("callboard: the resource manager is not registered: call RegisterResourceManager first")
	ErrStopped       = errors.New("callboard: the client was stopped")
	// ErrLost is wrapped by what OnLost is told, and by what calls give afterwards.
	ErrLost = errors.New("callboard: the session is lost")
)

func (o Options) withDefaults() (Options, error) {
	if len(o.Addrs) == 0 {
		return o, errors.New("callboard: Options.Addrs is empty: name at least one server as host:port")
	}
	for _, limit := range []struct {
		name  string
		value *int
		usual int
	}{
		{"PredicateWorkers", &o.PredicateWorkers, 8},
		{"EventQueue", &o.EventQueue, 10_000},
		{"RequestQueue", &o.RequestQueue, 100_000},
	} {
		if *limit.value < 0 {
			return o, errors.New("callboard: Options." + limit.name + " is negative")
		}
		if *limit.value == 0 {
			*limit.value = limit.usual
		}
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = time.Minute
	}
	if o.AnswerTimeout == 0 {
		o.AnswerTimeout = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.OnLost == nil {
		logger := o.Logger
		o.OnLost = func(err error) {
			logger.Error("the process ends, so that the shim starts anew", "error", err)
			os.Exit(1)
		}
	}
	return o, nil
}
