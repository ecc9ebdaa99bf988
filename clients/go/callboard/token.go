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
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// token reads the token of a file for each call, where the file has changed.
type token struct {
	file string

	mu    sync.Mutex
	read  time.Time
	size  int64
	value string
}

func (t *token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	value, err := t.get()
	if err != nil {
		// It may be written anew at this moment. Without a code gRPC would call it Unauthenticated, which is not tried again.
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return map[string]string{"authorization": "Bearer " + value}, nil
}

// RequireTransportSecurity is false: on the loopback a token may go without.
func (t *token) RequireTransportSecurity() bool { return false }

func (t *token) get() (string, error) {
	about, err := os.Stat(t.file)
	if err != nil {
		return "", fmt.Errorf("callboard: token file: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.value != "" && about.ModTime().Equal(t.read) && about.Size() == t.size {
		return t.value, nil
	}
	text, err := os.ReadFile(t.file)
	if err != nil {
		return "", fmt.Errorf("callboard: token file: %w", err)
	}
	value := strings.TrimSpace(string(text))
	if value == "" {
		return "", fmt.Errorf("callboard: token file %s is empty", t.file)
	}
	t.value, t.read, t.size = value, about.ModTime(), about.Size()
	return value, nil
}
