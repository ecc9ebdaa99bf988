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

// Package server starts the built Callboard server for tests.
package server

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Program is the variable that names the built server.
const Program = "CALLBOARD_BIN"

// Server is a running server on free ports of the loopback.
type Server struct {
	GRPC, HTTP string
	command    *exec.Cmd
}

// Start starts one that ends with the test. Without the program the test is skipped, and fails where CI is true.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	program := os.Getenv(Program)
	if program == "" {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s does not name the built server", Program)
		}
		t.Skipf("%s does not name the built server, such as target/debug/callboard", Program)
	}
	all := append([]string{"serve", "--ephemeral", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"}, args...)
	command := exec.Command(program, all...)
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "CALLBOARD_") && !strings.HasPrefix(setting, "RUST_LOG=") {
			command.Env = append(command.Env, setting)
		}
	}
	log := &strings.Builder{}
	command.Stderr = log
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatalf("the server does not start: %v", err)
	}
	s := &Server{command: command}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("the server logged:\n%s", log)
		}
	})
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if line, found := strings.CutPrefix(lines.Text(), "callboard ready "); found {
				ready <- line
			}
		}
		close(ready)
	}()
	select {
	case line := <-ready:
		for _, word := range strings.Fields(line) {
			if name, address, found := strings.Cut(word, "="); found {
				switch name {
				case "grpc":
					s.GRPC = strings.TrimPrefix(strings.TrimPrefix(address, "http://"), "https://")
				case "http":
					s.HTTP = address
					if !strings.Contains(address, "://") {
						s.HTTP = "http://" + address
					}
				}
			}
		}
	case <-time.After(time.Minute):
	}
	if s.GRPC == "" {
		t.Fatalf("the server is not ready")
	}
	return s
}

// Kill ends it at once.
func (s *Server) Kill() {
	if s.command.ProcessState == nil {
		_ = s.command.Process.Kill()
		_ = s.command.Wait()
	}
}
