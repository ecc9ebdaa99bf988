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
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/yunikorn-core/callboardv1"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/api"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/protobuf/proto"
)

// session is what a registration began. One after the other, a client has several.
type session struct {
	client   *Client
	request  *si.RegisterResourceManagerRequest
	callback api.ResourceManagerCallback
	known    *inventory

	ctx    context.Context
	cancel context.CancelFunc

	mu   sync.Mutex
	news sync.Cond
	// The server's number of the session; 0 before it began.
	epoch  uint64
	outbox outbox
	inbox  inbox
	// Which address is tried first.
	first int
	// Requests wait while the server is told what there is, and answers to that are not for the shim.
	replaying bool
	replays   int
	// Whether the shim had been told of it when the replay began.
	expected *expectation
	// Applications of which it had been told.
	before map[string]struct{}
	over   error

	questions chan question
	oneWay    chan func()
}

func newSession(c *Client, request *si.RegisterResourceManagerRequest, callback api.ResourceManagerCallback) *session {
	s := &session{
		client:    c,
		request:   request,
		callback:  callback,
		outbox:    newOutbox(),
		questions: make(chan question, 1024),
		oneWay:    make(chan func(), c.options.EventQueue),
	}
	if c.options.Replay {
		s.known, s.expected = newInventory(), newExpectation()
	}
	s.news.L = &s.mu
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// begin registers, and starts what the session needs.
func (s *session) begin() (*si.RegisterResourceManagerResponse, error) {
	link, response, err := s.register(s.client.options.ConnectTimeout)
	if err != nil {
		return nil, err
	}
	go s.run(link)
	go s.handle()
	go s.tellOneWay()
	for range s.client.options.PredicateWorkers {
		go s.answerQuestions()
	}
	return response, nil
}

// end makes every call fail with this error, and stops what runs.
func (s *session) end(err error) {
	s.mu.Lock()
	if s.over == nil {
		s.over = err
	}
	for _, entry := range s.outbox.queue {
		if entry.done != nil {
			entry.done <- err
			entry.done = nil
		}
	}
	s.mu.Unlock()
	s.news.Broadcast()
	s.cancel()
}

// lost ends a session that the server does not have any more.
func (s *session) lost(why error) {
	err := fmt.Errorf("%w: %w", ErrLost, why)
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if over != nil {
		return
	}
	s.client.options.Logger.Error("callboard: the session is lost", "rm", s.request.GetRmID(), "error", why)
	s.end(err)
	s.client.options.OnLost(err)
}

func (s *session) limits() (most, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outbox.maxItems, s.outbox.maxBytes
}

// submit puts requests at the end of the queue, and waits while that is too long.
func (s *session) submit(parts []part, done chan error) error {
	for _, part := range parts {
		// Here, so that whoever sends a text that is none is told.
		if _, err := proto.Marshal(part.request); err != nil {
			return fmt.Errorf("callboard: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.over == nil && (s.replaying || s.outbox.items >= s.client.options.RequestQueue) {
		s.news.Wait()
	}
	return s.put(parts, done)
}

// put is submit with the lock held, at once.
func (s *session) put(parts []part, done chan error) error {
	if s.over != nil {
		return s.over
	}
	if s.epoch == 0 {
		return ErrNotRegistered
	}
	for _, part := range parts {
		entry := s.outbox.add(part.request, part.items)
		entry.done = done
		if s.known != nil && !s.replaying {
			s.known.requested(part.request)
		}
	}
	s.news.Broadcast()
	return nil
}

// trace names the trace that a request is part of.
func (s *session) trace(request proto.Message, parts []part) {
	if ask := s.client.options.Traceparent; ask != nil {
		traceparent := ask(request)
		for _, part := range parts {
			part.request.Traceparent = traceparent
		}
	}
}

func (s *session) configure(request *si.UpdateConfigurationRequest, patience time.Duration) error {
	done := make(chan error, 1)
	configuration := &callboardv1.Request_Configuration{Configuration: request}
	if err := s.submit([]part{{&callboardv1.Request{Request: configuration}, 0}}, done); err != nil {
		return err
	}
	select {
	case err := <-done:
		if err == nil {
			// A registration that is repeated brings what is in force.
			s.mu.Lock()
			s.request.Config, s.request.ExtraConfig = request.GetConfig(), request.GetExtraConfig()
			s.mu.Unlock()
		}
		return err
	case <-time.After(patience):
		return fmt.Errorf("callboard: the configuration was handed in, and not answered within %v", patience)
	}
}

// flush waits until nothing is left to be acknowledged.
func (s *session) flush(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.news.Broadcast)
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.over != nil:
			return s.over
		case s.epoch != 0 && !s.replaying && len(s.outbox.queue) == 0:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("callboard: %d requests are not acknowledged: %w", len(s.outbox.queue), ctx.Err())
		}
		s.news.Wait()
	}
}

// unregister ends the session at the server, behind everything that was handed in, and here in any case.
func (s *session) unregister(ctx context.Context) error {
	err := s.flush(ctx)
	// Before the server does, or its streams would end as those of a session that is lost.
	s.end(ErrNotRegistered)
	if err != nil {
		return err
	}
	err = errors.New("callboard: no server answers")
	for turn := range s.client.options.Addrs {
		conn, dialed := s.client.dial(s.addr(turn))
		if dialed != nil {
			return dialed
		}
		_, err = callboardv1.NewSchedulerExtensionClient(conn).Unregister(ctx, &callboardv1.UnregisterRequest{RmId: s.request.GetRmID()})
		_ = conn.Close()
		if err == nil || !retries(err) {
			return err
		}
	}
	return err
}
