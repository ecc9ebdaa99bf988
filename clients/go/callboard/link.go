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
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/apache/yunikorn-core/callboardv1"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

const (
	// How long one server may take to open the streams.
	opening = 10 * time.Second
	// Between two attempts, at first and at most.
	shortest = 20 * time.Millisecond
	longest  = 2 * time.Second
	// How long a server may be silent when it is asked whether it is there, alone and where there are others: then one that hangs,
	// which keeps its connections, is worth leaving soon.
	patience          = 10 * time.Second
	patienceOfSeveral = 4 * time.Second
	// Largest message that is taken in: the server gathers at most a few megabytes in one.
	largest = 64 << 20
)

// link is one connection, with its two streams.
type link struct {
	conn   *grpc.ClientConn
	ctx    context.Context
	cancel context.CancelFunc
	calls  grpc.BidiStreamingClient[callboardv1.Reply, callboardv1.Call]
	acks   grpc.BidiStreamingClient[callboardv1.Request, callboardv1.Ack]

	mu sync.Mutex
}

// reply answers a call of this very connection; over another one nobody waits for it.
func (l *link) reply(reply *callboardv1.Reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Where it fails, whoever reads the stream learns why.
	_ = l.calls.Send(reply)
}

func (l *link) close() {
	l.cancel()
	_ = l.conn.Close()
}

func (c *Client) dial(addr string) (*grpc.ClientConn, error) {
	silence := patience
	if len(c.options.Addrs) > 1 {
		silence = patienceOfSeveral
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: silence, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largest), grpc.MaxCallSendMsgSize(largest)),
		grpc.WithInitialWindowSize(1 << 20),
		grpc.WithInitialConnWindowSize(4 << 20),
	}
	if c.options.TLS != nil {
		options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(c.options.TLS.Clone())))
	}
	if c.token != nil {
		options = append(options, grpc.WithPerRPCCredentials(c.token))
	}
	conn, err := grpc.NewClient(addr, options...)
	if err != nil {
		return nil, fmt.Errorf("callboard: address %q: %w", addr, err)
	}
	return conn, nil
}

// connect opens the stream of responses and says hello.
func (s *session) connect(addr string, hello *callboardv1.Hello) (*link, error) {
	conn, err := s.client.dial(addr)
	if err != nil {
		return nil, err
	}
	l := &link{conn: conn}
	l.ctx, l.cancel = context.WithCancel(s.ctx)
	stop := l.within(opening)
	defer stop()
	l.calls, err = callboardv1.NewSchedulerExtensionClient(conn).Callbacks(l.ctx)
	if err == nil {
		err = l.calls.Send(&callboardv1.Reply{Reply: &callboardv1.Reply_Hello{Hello: hello}})
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// addr is an address to try: first the one that was good last.
func (s *session) addr(turn int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	addrs := s.client.options.Addrs
	return addrs[(s.first+turn)%len(addrs)]
}

// begins says that another address is to be tried first.
func (s *session) begins(turn int) {
	s.mu.Lock()
	s.first += turn
	s.mu.Unlock()
}

// within gives up a link that takes too long; the returned function ends the watch and says whether it did.
func (l *link) within(patience time.Duration) func() {
	watch := time.AfterFunc(patience, l.cancel)
	return func() { watch.Stop() }
}

func (l *link) ready() (*callboardv1.Ready, error) {
	call, err := l.calls.Recv()
	if err != nil {
		return nil, err
	}
	ready := call.GetReady()
	if ready == nil {
		return nil, status.Error(codes.Internal, "the server did not begin with Ready")
	}
	return ready, nil
}

// requests opens the stream of requests and takes the first acknowledgement.
func (s *session) requests(l *link, epoch uint64) error {
	var err error
	l.acks, err = callboardv1.NewSchedulerExtensionClient(l.conn).Requests(l.ctx)
	if err != nil {
		return err
	}
	if err := l.acks.Send(&callboardv1.Request{RmId: s.request.GetRmID(), Epoch: epoch}); err != nil {
		// The reason is where answers come from.
		_, err = l.acks.Recv()
		return err
	}
	ack, err := l.acks.Recv()
	if err != nil {
		return err
	}
	if ack.Epoch != epoch {
		return otherEpoch(epoch, ack.Epoch)
	}
	s.mu.Lock()
	s.outbox.acknowledged(ack)
	s.outbox.reopened()
	s.mu.Unlock()
	s.news.Broadcast()
	return nil
}

func otherEpoch(mine, theirs uint64) error {
	return fmt.Errorf("%w: epoch %d was followed by %d: the resource manager was registered elsewhere", errGone, mine, theirs)
}

// errGone marks what no other connection brings back.
var errGone = errors.New("the server has no such session")

// register registers at the first server that is there.
func (s *session) register(patience time.Duration) (*link, *si.RegisterResourceManagerResponse, error) {
	end := time.Now().Add(patience)
	wait := shortest
	for turn := 0; ; turn++ {
		l, response, err := s.registerAt(s.addr(turn))
		switch {
		case err == nil:
			s.begins(turn)
			return l, response, nil
		case !retries(err), s.ctx.Err() != nil:
			return nil, nil, err
		case time.Now().After(end):
			return nil, nil, fmt.Errorf("callboard: no server of %s answers: %w", strings.Join(s.client.options.Addrs, ", "), err)
		}
		wait = s.pause(wait, turn, err)
	}
}

func (s *session) registerAt(addr string) (*link, *si.RegisterResourceManagerResponse, error) {
	// Before the registration, so that no response of the new session is missed, and none of an old one comes.
	l, err := s.connect(addr, &callboardv1.Hello{RmId: s.request.GetRmID(), BatchPredicates: true, SeveralPredicates: true})
	if err != nil {
		return nil, nil, err
	}
	stop := l.within(opening)
	if _, err := l.ready(); err != nil {
		l.close()
		return nil, nil, err
	}
	stop()
	// A registration takes apart what was there before: that takes its time.
	response, err := si.NewSchedulerClient(l.conn).RegisterResourceManager(l.ctx, s.request)
	if err != nil {
		l.close()
		return nil, nil, err
	}
	stop = l.within(opening)
	defer stop()
	ready, err := l.ready()
	if err == nil {
		s.mu.Lock()
		s.epoch, s.inbox.received = ready.Epoch, 0
		s.outbox = newOutbox()
		s.mu.Unlock()
		err = s.requests(l, ready.Epoch)
	}
	if err != nil {
		l.close()
		return nil, nil, err
	}
	return l, response, nil
}

// resume goes on with the session at this server.
func (s *session) resume(addr string) (*link, error) {
	// What came and is not handled is not sent again.
	s.handled()
	s.mu.Lock()
	after, epoch := s.inbox.received, s.epoch
	s.mu.Unlock()
	hello := &callboardv1.Hello{RmId: s.request.GetRmID(), BatchPredicates: true, SeveralPredicates: true, Resume: true, ResumeAfter: after}
	l, err := s.connect(addr, hello)
	if err != nil {
		return nil, err
	}
	stop := l.within(opening)
	defer stop()
	ready, err := l.ready()
	if err == nil && ready.Epoch != epoch {
		err = otherEpoch(epoch, ready.Epoch)
	}
	if err == nil {
		if err = s.requests(l, epoch); status.Code(err) == codes.Aborted {
			err = fmt.Errorf("%w: %w", errGone, err)
		}
	}
	if err != nil {
		l.close()
		if gone(err) {
			err = fmt.Errorf("%w: %w", errGone, err)
		}
		return nil, err
	}
	return l, nil
}

// gone says that the server has no session to resume.
func gone(err error) bool {
	switch status.Code(err) {
	case codes.NotFound, codes.FailedPrecondition, codes.OutOfRange, codes.InvalidArgument:
		return true
	}
	return false
}

// retries says that another attempt may help.
func retries(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented, codes.FailedPrecondition,
		codes.ResourceExhausted, codes.NotFound, codes.OutOfRange:
		return false
	}
	return !errors.Is(err, errGone)
}

// run keeps the session connected until it is over.
func (s *session) run(l *link) {
	for {
		err := s.serve(l)
		l.close()
		if s.ctx.Err() != nil {
			return
		}
		s.client.options.Logger.Info("callboard: the connection is lost", "rm", s.request.GetRmID(), "error", err)
		// Its server may hang, and would do so once more.
		s.begins(1)
		if l, err = s.again(err); err != nil {
			if s.ctx.Err() == nil {
				s.lost(err)
			}
			return
		}
	}
}

// again connects once more, or replays the session where it is gone.
func (s *session) again(why error) (*link, error) {
	wait := shortest
	for turn := 0; ; turn++ {
		l, err := s.resume(s.addr(turn))
		if err == nil {
			s.begins(turn)
			c := &s.client.counters
			c.add(&c.connects, "Reconnects", 1)
			return l, nil
		}
		if s.ctx.Err() != nil {
			return nil, err
		}
		if errors.Is(err, errGone) {
			// Another server may still have it.
			if turn+1 < len(s.client.options.Addrs) {
				continue
			}
			if s.known == nil {
				return nil, err
			}
			return s.replay(err)
		}
		if wait == longest {
			s.client.options.Logger.Warn("callboard: no connection", "rm", s.request.GetRmID(), "first", why, "error", err)
		}
		wait = s.pause(wait, turn, err)
	}
}

// pause waits a little longer each time that all addresses were tried.
func (s *session) pause(wait time.Duration, turn int, _ error) time.Duration {
	if (turn+1)%len(s.client.options.Addrs) != 0 {
		return wait
	}
	select {
	case <-time.After(wait/2 + rand.N(wait)):
	case <-s.ctx.Done():
	}
	return min(2*wait, longest)
}

// serve carries requests, acknowledgements and calls until the connection breaks; gives why it did.
func (s *session) serve(l *link) error {
	broken := make(chan error, 3)
	var running sync.WaitGroup
	for _, carry := range []func(*link) error{s.receive, s.acknowledge, s.send} {
		running.Add(1)
		go func() {
			defer running.Done()
			broken <- carry(l)
			l.cancel()
			s.news.Broadcast()
		}()
	}
	running.Wait()
	// The first one is the reason, unless it is only that the others were cut off.
	err := <-broken
	for range 2 {
		if other := <-broken; status.Code(err) == codes.Canceled || errors.Is(err, context.Canceled) {
			err = other
		}
	}
	return err
}

func (s *session) receive(l *link) error {
	for {
		call, err := l.calls.Recv()
		if err != nil {
			return err
		}
		s.take(call, l)
	}
}

func (s *session) acknowledge(l *link) error {
	for {
		ack, err := l.acks.Recv()
		if err != nil {
			s.refused(err)
			return err
		}
		s.mu.Lock()
		s.outbox.acknowledged(ack)
		s.mu.Unlock()
		s.news.Broadcast()
	}
}

// refused takes a request out of the way that the server does not take: it is cut into parts, or left out.
func (s *session) refused(err error) {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.ResourceExhausted:
	default:
		return
	}
	var sequence uint64
	message := status.Convert(err).Message()
	if _, scanned := fmt.Sscanf(message, "request %d", &sequence); scanned != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if status.Code(err) == codes.ResourceExhausted && s.outbox.split(sequence) {
		return
	}
	if s.outbox.void(sequence, fmt.Errorf("callboard: %s", message)) {
		s.client.options.Logger.Error("callboard: the server refuses a request, which is left out", "error", message)
	}
}

func (s *session) send(l *link) error {
	c := &s.client.counters
	for {
		s.mu.Lock()
		entry := s.outbox.next()
		for entry == nil && l.ctx.Err() == nil {
			s.news.Wait()
			entry = s.outbox.next()
		}
		again := entry != nil && entry.sent
		var request *callboardv1.Request
		if entry != nil {
			entry.sent = true
			request = entry.request
		}
		s.mu.Unlock()
		if l.ctx.Err() != nil {
			return l.ctx.Err()
		}
		if again {
			c.add(&c.resent, "RequestsResent", 1)
		} else {
			c.add(&c.requests, "Requests", 1)
		}
		if err := l.acks.Send(request); err != nil {
			// The reason is where acknowledgements come from.
			<-l.ctx.Done()
			return err
		}
	}
}
