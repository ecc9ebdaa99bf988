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
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/apache/yunikorn-core/internal/server"
)

// The program of the tutorial prints what the tutorial shows, and the tutorial shows what the program has.
func TestTutorial(t *testing.T) {
	running := server.Start(t)
	page, err := os.ReadFile("../../../docs/tutorials/go-shim.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("../../../docs/tutorials/go-shim/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "$ go run .\n")
	wanted, _, _ := strings.Cut(after, "```")
	command := exec.Command("go", "run", "../../../docs/tutorials/go-shim/main.go")
	command.Env = append(os.Environ(), "CALLBOARD_ADDRS="+running.GRPC)
	printed, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	if string(printed) != wanted {
		t.Errorf("printed\n%swanted\n%s", printed, wanted)
	}
	for _, part := range strings.Split(string(page), "```go\n")[1:] {
		part, _, _ = strings.Cut(part, "```")
		for _, line := range strings.Split(strings.TrimSpace(part), "\n") {
			// What a call gives, and where a literal ends, may be written otherwise.
			line = strings.TrimSpace(strings.ReplaceAll(line, "_, err = ", ""))
			if !strings.Contains(string(program), strings.TrimSpace(line)) {
				t.Errorf("the program has no %q", line)
			}
		}
	}
}
