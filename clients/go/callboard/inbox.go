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
	"sync/atomic"

	"github.com/apache/yunikorn-core/callboardv1"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/api"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// inbox holds responses in their order until the shim has handled them. The session's lock guards it.
type inbox struct {
	queue []delivery
	// One of them is with the shim.
	handling bool
	// The last line that came, whatever it carries.
	received uint64
}

// delivery is a response, and the stream that it came over.
type delivery struct {
	call *callboardv1.Call
	link *link
}

// question is one about predicates, and the stream that wants the answer.
type question struct {
	delivery
	// Where the answer to one of several asks goes, and which one it is.
	several *several
	nth     int
}

// several gathers the answers to the asks of a call.
type several struct {
	answers []*callboardv1.PredicatesBatchReply
	left    atomic.Int64
}

// take sorts what came over a stream.
func (s *session) take(call *callboardv1.Call, from *link) {
	switch told := call.Call.(type) {
	case *callboardv1.Call_Allocation, *callboardv1.Call_Application, *callboardv1.Call_Node:
		s.mu.Lock()
		s.inbox.queue = append(s.inbox.queue, delivery{call, from})
		s.mu.Unlock()
		s.news.Broadcast()
	case *callboardv1.Call_Predicates, *callboardv1.Call_PreemptionPredicates, *callboardv1.Call_PredicatesBatch:
		s.queue(question{delivery: delivery{call, from}})
	case *callboardv1.Call_PredicatesSeveral:
		asks := told.PredicatesSeveral.Asks
		gathered := &several{answers: make([]*callboardv1.PredicatesBatchReply, len(asks))}
		gathered.left.Store(int64(len(asks)))
		for nth := range asks {
			s.queue(question{delivery{call, from}, gathered, nth})
		}
	case *callboardv1.Call_Events:
		s.later(func() { s.callback.SendEvent(told.Events.GetEvents()) })
	case *callboardv1.Call_ContainerState:
		s.later(func() { s.callback.UpdateContainerSchedulingState(told.ContainerState) })
	case *callboardv1.Call_StateDump:
		go func() {
			from.reply(&callboardv1.Reply{Id: call.Id, Reply: &callboardv1.Reply_StateDump{StateDump: s.stateDump()}})
		}()
	}
	if call.Sequence > 0 {
		s.mu.Lock()
		s.inbox.received = max(s.inbox.received, call.Sequence)
		s.mu.Unlock()
	}
}

// queue waits for room among the questions.
func (s *session) queue(asked question) {
	select {
	case s.questions <- asked:
	case <-s.ctx.Done():
	}
}

// later has something told that no answer is wanted for, where there is room.
func (s *session) later(tell func()) {
	c := &s.client.counters
	select {
	case s.oneWay <- tell:
	default:
		c.add(&c.dropped, "EventsDropped", 1)
	}
}

func (s *session) tellOneWay() {
	c := &s.client.counters
	for {
		select {
		case tell := <-s.oneWay:
			tell()
			c.add(&c.events, "Events", 1)
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *session) stateDump() *callboardv1.StateDumpReply {
	plugin, ok := s.callback.(api.StateDumpPlugin)
	if !ok {
		return &callboardv1.StateDumpReply{Error: "the shim has no part of state dumps"}
	}
	dump, err := plugin.GetStateDump()
	if err != nil {
		return &callboardv1.StateDumpReply{Error: err.Error()}
	}
	return &callboardv1.StateDumpReply{Json: dump}
}

// handle hands responses to the shim, one after the other.
func (s *session) handle() {
	for {
		s.mu.Lock()
		for len(s.inbox.queue) == 0 && s.over == nil {
			s.news.Wait()
		}
		if s.over != nil {
			s.mu.Unlock()
			return
		}
		next := s.inbox.queue[0]
		s.inbox.queue[0] = delivery{}
		s.inbox.queue = s.inbox.queue[1:]
		s.inbox.handling = true
		if s.known != nil {
			s.known.responded(next.call, s.expected)
			s.swallow(next.call)
		}
		s.mu.Unlock()

		err := s.tell(next.call)
		done := &callboardv1.Done{}
		if err != nil {
			done.Error = err.Error()
			s.client.options.Logger.Warn("callboard: the shim could not handle a response", "error", err)
		}
		next.link.reply(&callboardv1.Reply{Id: next.call.Id, Reply: &callboardv1.Reply_Done{Done: done}})

		s.mu.Lock()
		s.inbox.handling = false
		s.mu.Unlock()
		s.news.Broadcast()
		c := &s.client.counters
		c.add(&c.callbacks, "Callbacks", 1)
	}
}

// tell hands a response to the shim, unless nothing of it is left.
func (s *session) tell(call *callboardv1.Call) error {
	switch told := call.Call.(type) {
	case *callboardv1.Call_Allocation:
		answer := told.Allocation
		if len(answer.New)+len(answer.Released)+len(answer.RejectedAllocations) == 0 {
			return nil
		}
		return s.callback.UpdateAllocation(answer)
	case *callboardv1.Call_Application:
		answer := told.Application
		if len(answer.Accepted)+len(answer.Rejected)+len(answer.Updated) == 0 {
			return nil
		}
		return s.callback.UpdateApplication(answer)
	case *callboardv1.Call_Node:
		answer := told.Node
		if len(answer.Accepted)+len(answer.Rejected) == 0 {
			return nil
		}
		return s.callback.UpdateNode(answer)
	}
	return nil
}

// handled waits until the shim has handled everything that came.
func (s *session) handled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.over == nil && (len(s.inbox.queue) > 0 || s.inbox.handling) {
		s.news.Wait()
	}
}

func (s *session) answerQuestions() {
	for {
		select {
		case asked := <-s.questions:
			s.answer(asked)
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *session) answer(asked question) {
	reply := &callboardv1.Reply{Id: asked.call.Id}
	c := &s.client.counters
	if asked.nth == 0 {
		c.add(&c.questions, "Questions", 1)
	}
	switch told := asked.call.Call.(type) {
	case *callboardv1.Call_Predicates:
		c.add(&c.predicates, "Predicates", 1)
		reply.Reply = &callboardv1.Reply_Predicates{Predicates: &callboardv1.PredicatesReply{Error: s.fits(told.Predicates)}}
	case *callboardv1.Call_PredicatesBatch:
		reply.Reply = &callboardv1.Reply_PredicatesBatch{PredicatesBatch: s.batch(told.PredicatesBatch)}
	case *callboardv1.Call_PredicatesSeveral:
		asked.several.answers[asked.nth] = s.batch(told.PredicatesSeveral.Asks[asked.nth])
		if asked.several.left.Add(-1) > 0 {
			return
		}
		answers := &callboardv1.PredicatesSeveralReply{Answers: asked.several.answers}
		reply.Reply = &callboardv1.Reply_PredicatesSeveral{PredicatesSeveral: answers}
	case *callboardv1.Call_PreemptionPredicates:
		c.add(&c.predicates, "Predicates", 1)
		answer := s.callback.PreemptionPredicates(told.PreemptionPredicates)
		if answer == nil {
			answer = &si.PreemptionPredicatesResponse{}
		}
		reply.Reply = &callboardv1.Reply_PreemptionPredicates{PreemptionPredicates: answer}
	}
	asked.link.reply(reply)
}

// batch looks at the nodes of one ask.
func (s *session) batch(batch *callboardv1.PredicatesBatchArgs) *callboardv1.PredicatesBatchReply {
	c := &s.client.counters
	told := &callboardv1.PredicatesBatchReply{}
	for _, node := range batch.NodeIds {
		refused := s.fits(&si.PredicatesArgs{AllocationKey: batch.AllocationKey, NodeID: node, Allocate: batch.Allocate})
		told.Errors = append(told.Errors, refused)
		c.add(&c.predicates, "Predicates", 1)
		if refused == "" && batch.FirstOnly {
			break
		}
	}
	return told
}

// fits is empty where the ask fits on the node, else why it does not.
func (s *session) fits(args *si.PredicatesArgs) string {
	err := s.callback.Predicates(args)
	if err == nil {
		return ""
	}
	if text := err.Error(); text != "" {
		return text
	}
	return "the shim refused it without a reason"
}
