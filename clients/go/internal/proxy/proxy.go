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

// Package proxy carries connections to a server, and cuts them when a test wants that.
package proxy

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy listens on a port of its own.
type Proxy struct {
	Addr string

	mu     sync.Mutex
	target string
	open   map[net.Conn]struct{}
	cuts   int
	hangs  chan struct{}
	once   sync.Once
}

// Start carries connections to this address until the test ends.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: listener.Addr().String(), target: target, open: map[net.Conn]struct{}{}, hangs: make(chan struct{})}
	t.Cleanup(func() {
		_ = listener.Close()
		p.Cut()
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.carry(conn)
		}
	}()
	return p
}

func (p *Proxy) carry(conn net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	to, err := net.Dial("tcp", target)
	if err != nil {
		_ = conn.Close()
		return
	}
	p.mu.Lock()
	p.open[conn], p.open[to] = struct{}{}, struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Add(2)
	for _, way := range [][2]net.Conn{{conn, to}, {to, conn}} {
		go func() {
			defer both.Done()
			_, _ = io.Copy(writer{p, way[0]}, way[1])
			_ = way[0].Close()
			_ = way[1].Close()
		}()
	}
	both.Wait()
	p.mu.Lock()
	delete(p.open, conn)
	delete(p.open, to)
	p.mu.Unlock()
}

// Cut closes what is open, in the middle of whatever is on its way; gives how many connections there were.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	cut := len(p.open) / 2
	for conn := range p.open {
		if tcp, ok := conn.(*net.TCPConn); ok {
			// What is in its buffers is lost.
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
	clear(p.open)
	p.cuts += cut
	return cut
}

// Cuts is how many connections were cut.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// To carries new connections to another address.
func (p *Proxy) To(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
}

// Hang keeps connections, takes new ones, and carries nothing any more, as a process that is stopped.
func (p *Proxy) Hang() {
	p.once.Do(func() { close(p.hangs) })
}

// writer takes what is written, and leaves it there where the proxy hangs.
type writer struct {
	proxy *Proxy
	to    net.Conn
}

func (w writer) Write(data []byte) (int, error) {
	select {
	case <-w.proxy.hangs:
		return len(data), nil
	default:
		return w.to.Write(data)
	}
}
