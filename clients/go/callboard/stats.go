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

import "sync/atomic"

// Stats is what a client has counted since it was made.
type Stats struct {
	// Requests that were handed to the server for the first time, and again after a lost connection.
	Requests, RequestsResent uint64
	// Responses that the shim handled.
	Callbacks uint64
	// Pairs of ask and node that the shim was asked about, and the calls of the server that they came in.
	Predicates, Questions uint64
	// Batches of events and container states that the shim got, and that were dropped since it was too slow.
	Events, EventsDropped uint64
	// Connections that were lost and made again, and sessions that were.
	Reconnects, Replays uint64
}

type counters struct {
	sink                                                                                   Metrics
	requests, resent, callbacks, predicates, questions, events, dropped, connects, replays atomic.Uint64
}

func (c *counters) add(counter *atomic.Uint64, name string, n uint64) {
	counter.Add(n)
	if c.sink != nil && n > 0 {
		c.sink.Add(name, n)
	}
}

func (c *counters) stats() Stats {
	return Stats{
		Requests:       c.requests.Load(),
		RequestsResent: c.resent.Load(),
		Callbacks:      c.callbacks.Load(),
		Predicates:     c.predicates.Load(),
		Questions:      c.questions.Load(),
		Events:         c.events.Load(),
		EventsDropped:  c.dropped.Load(),
		Reconnects:     c.connects.Load(),
		Replays:        c.replays.Load(),
	}
}
