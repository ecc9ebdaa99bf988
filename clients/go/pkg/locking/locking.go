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

// Package locking says how the locks of a shim behave: whether they watch for deadlocks. There is nothing of the scheduler's own to
// lock.
//
// DEADLOCK_DETECTION_ENABLED=true watches, DEADLOCK_TIMEOUT_SECONDS (60) is how long a lock may be waited for,
// DEADLOCK_DISABLE_LOCK_ORDER=true leaves the order of locks alone, and DEADLOCK_EXIT=true ends the process when one is found.
package locking

import (
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sasha-s/go-deadlock"
)

// Mutex and RWMutex watch for deadlocks where that is wanted.
type (
	Mutex   = deadlock.Mutex
	RWMutex = deadlock.RWMutex
)

// How long a lock may be waited for where nothing else is said.
const usualSeconds = 60

var (
	tracking bool
	seconds  = usualSeconds
	detected atomic.Bool
)

func init() { configure(os.Getenv) }

// configure sets what holds for all locks of this library in the process.
func configure(get func(string) string) {
	is := func(name string) bool {
		value, err := strconv.ParseBool(get(name))
		return err == nil && value
	}
	detected.Store(false)
	tracking, seconds = is("DEADLOCK_DETECTION_ENABLED"), usualSeconds
	if given, err := strconv.Atoi(get("DEADLOCK_TIMEOUT_SECONDS")); err == nil && given > 0 {
		seconds = given
	}
	exits := is("DEADLOCK_EXIT")
	deadlock.Opts.Disable = !tracking
	deadlock.Opts.DisableLockOrderDetection = is("DEADLOCK_DISABLE_LOCK_ORDER")
	deadlock.Opts.DeadlockTimeout = time.Duration(seconds) * time.Second
	deadlock.Opts.OnPotentialDeadlock = func() {
		detected.Store(true)
		if exits {
			os.Exit(1)
		}
	}
}

// IsTrackingEnabled says whether locks watch for deadlocks.
func IsTrackingEnabled() bool { return tracking }

// GetDeadlockTimeoutSeconds is how long a lock may be waited for.
func GetDeadlockTimeoutSeconds() int { return seconds }

// IsDeadlockDetected says whether a deadlock was found.
func IsDeadlockDetected() bool { return detected.Load() }
