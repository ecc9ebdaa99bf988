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

package locking

import (
	"io"
	"testing"

	"github.com/sasha-s/go-deadlock"
)

func TestLocksWatchWhereThatIsWanted(t *testing.T) {
	t.Cleanup(func() { configure(func(string) string { return "" }) })
	if IsTrackingEnabled() || !deadlock.Opts.Disable {
		t.Error("locks watch, and nobody wanted that")
	}
	given := map[string]string{"DEADLOCK_DETECTION_ENABLED": "true", "DEADLOCK_TIMEOUT_SECONDS": "7"}
	configure(func(name string) string { return given[name] })
	if !IsTrackingEnabled() || deadlock.Opts.Disable || GetDeadlockTimeoutSeconds() != 7 || IsDeadlockDetected() {
		t.Error("locks do not watch")
	}
	deadlock.Opts.LogBuf = io.Discard
	var first, second Mutex
	locked := 0
	both := func(one, other *Mutex) {
		one.Lock()
		defer one.Unlock()
		other.Lock()
		defer other.Unlock()
		locked++
	}
	both(&first, &second)
	both(&second, &first)
	if locked != 2 || !IsDeadlockDetected() {
		t.Error("two orders of two locks were not noticed")
	}
}
