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
	"errors"
	"testing"

	"github.com/apache/yunikorn-core/callboardv1"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

func TestAConfigurationThatIsLeftOutIsNotToldAsApplied(t *testing.T) {
	box := newOutbox()
	entry := box.add(&callboardv1.Request{Request: &callboardv1.Request_Configuration{
		Configuration: &si.UpdateConfigurationRequest{Config: "malformed"},
	}}, 0)
	done := make(chan error, 1)
	entry.done = done
	box.next()
	refused := errors.New("request 1: it cannot be read")
	if !box.void(1, refused) {
		t.Fatal("it is there")
	}
	box.reopened()
	// What goes out in its place under its number is applied.
	if next := box.next(); next.request.GetHeartbeat() == nil || next.request.Sequence != 1 {
		t.Fatalf("%v goes out", next.request)
	}
	box.acknowledged(&callboardv1.Ack{Sequence: 1})
	if err := <-done; !errors.Is(err, refused) {
		t.Fatalf("told %v", err)
	}
}
