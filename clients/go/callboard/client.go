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
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/apache/yunikorn-core/callboardv1"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/api"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/protobuf/proto"
)

// Client is a scheduler behind gRPC. Its methods may be called from several goroutines, also from within callbacks.
type Client struct {
	options  Options
	token    *token
	counters counters

	mu      sync.Mutex
	session *session
	stopped bool
}

var _ api.SchedulerAPI = (*Client)(nil)

// New makes a client. It connects when a resource manager is registered.
func New(options Options) (*Client, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	client := &Client{options: options, counters: counters{sink: options.Metrics}}
	if options.TokenFile != "" {
		client.token = &token{file: options.TokenFile}
		if _, err := client.token.get(); err != nil {
			return nil, err
		}
	}
	return client, nil
}

// Stats gives what was counted.
func (c *Client) Stats() Stats { return c.counters.stats() }

// RegisterResourceManager begins a session, after the one before has ended. It waits for a server to be there, up to
// Options.ConnectTimeout. An error of the server is a gRPC status: INVALID_ARGUMENT for a configuration that is refused.
func (c *Client) RegisterResourceManager(
	request *si.RegisterResourceManagerRequest, callback api.ResourceManagerCallback,
) (*si.RegisterResourceManagerResponse, error) {
	if callback == nil {
		return nil, errors.New("callboard: a resource manager needs a callback")
	}
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return nil, ErrStopped
	}
	before := c.session
	next := newSession(c, proto.Clone(request).(*si.RegisterResourceManagerRequest), callback)
	c.session = next
	c.mu.Unlock()
	if before != nil {
		before.end(errors.New("callboard: the resource manager was registered again"))
	}
	response, err := next.begin()
	if err != nil {
		next.end(err)
		return nil, err
	}
	return response, nil
}

func (c *Client) current() (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, ErrStopped
	}
	if c.session == nil {
		return nil, ErrNotRegistered
	}
	return c.session, nil
}

// UpdateAllocation hands in asks, allocations and releases. It returns when the request has its place in the order; it waits while
// too many items wait already. What is wrong with an item comes back as a response.
func (c *Client) UpdateAllocation(request *si.AllocationRequest) error {
	return handIn(c, request, allocationParts)
}

// UpdateApplication hands in applications; see UpdateAllocation.
func (c *Client) UpdateApplication(request *si.ApplicationRequest) error {
	return handIn(c, request, applicationParts)
}

// UpdateNode hands in nodes; see UpdateAllocation.
func (c *Client) UpdateNode(request *si.NodeRequest) error {
	return handIn(c, request, nodeParts)
}

// handIn hands in a request, in parts that the server takes.
func handIn[R proto.Message](c *Client, request R, cut func(request R, most, bytes int) ([]part, error)) error {
	session, err := c.current()
	if err != nil {
		return err
	}
	request = proto.Clone(request).(R)
	most, bytes := session.limits()
	parts, err := cut(request, most, bytes)
	if err != nil {
		return err
	}
	session.trace(request, parts)
	return session.submit(parts, nil)
}

// UpdateConfiguration changes the configuration behind all requests before it, and waits for the outcome: an error says why it was
// refused, and the old one stays.
func (c *Client) UpdateConfiguration(request *si.UpdateConfigurationRequest) error {
	session, err := c.current()
	if err != nil {
		return err
	}
	return session.configure(proto.Clone(request).(*si.UpdateConfigurationRequest), c.options.AnswerTimeout)
}

// Heartbeat tells that these nodes are alive (the resource journal of the server). From the first one on that names a node that is
// registered, only nodes that are named count as alive.
func (c *Client) Heartbeat(nodes []string) error {
	session, err := c.current()
	if err != nil {
		return err
	}
	heartbeat := &callboardv1.Request_Heartbeat{Heartbeat: &callboardv1.Heartbeat{NodeIds: nodes}}
	return session.submit([]part{{&callboardv1.Request{Request: heartbeat}, len(nodes)}}, nil)
}

// Validate asks the server whether it would take a configuration; nothing is changed. The error says what is wrong with it. It takes
// Options.Web.
func (c *Client) Validate(ctx context.Context, configuration string) error {
	if c.options.Web == "" {
		return errors.New("callboard: Validate asks the HTTP door: set Options.Web")
	}
	url := strings.TrimSuffix(c.options.Web, "/") + "/ws/v1/validate-conf"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(configuration))
	if err != nil {
		return err
	}
	if c.token != nil {
		value, err := c.token.get()
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+value)
	}
	transport := &http.Transport{TLSClientConfig: c.options.TLS}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("callboard: %s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	var told struct {
		Allowed bool   `json:"allowed"`
		Reason  string `json:"reason"`
	}
	if err := json.Unmarshal(body, &told); err != nil {
		return fmt.Errorf("callboard: the answer of %s: %w", url, err)
	}
	if !told.Allowed {
		return errors.New("callboard: " + told.Reason)
	}
	return nil
}

// Flush waits until everything that was handed in is applied.
func (c *Client) Flush(ctx context.Context) error {
	session, err := c.current()
	if err != nil {
		return err
	}
	return session.flush(ctx)
}

// Unregister ends the session at the server: its partitions go, with everything in them.
func (c *Client) Unregister(ctx context.Context) error {
	session, err := c.current()
	if err != nil {
		return err
	}
	return session.unregister(ctx)
}

// Stop ends the client. The server keeps the session for a while (rm.pauseTimeout), in which nothing new is placed: a shim that starts
// anew begins another one. Stop waits up to five seconds until what was handed in is applied.
func (c *Client) Stop() {
	c.mu.Lock()
	session := c.session
	stopped := c.stopped
	c.mu.Unlock()
	if stopped {
		return
	}
	if session != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_ = session.flush(ctx)
		cancel()
	}
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	if session != nil {
		session.end(ErrStopped)
	}
}
