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

package main

import (
	"strings"
	"testing"

	"github.com/apache/yunikorn-core/internal/server"
)

func TestABuiltServerPassesEveryCheck(t *testing.T) {
	running := server.Start(t)
	var out, errors strings.Builder
	if status := run([]string{"-addr", running.GRPC}, &out, &errors); status != 0 {
		t.Errorf("status %d\n%s%s", status, out.String(), errors.String())
	}
	if lines := strings.Count(out.String(), " ok "); lines != len(checks) {
		t.Errorf("%d of %d checks are ok:\n%s", lines, len(checks), out.String())
	}
	t.Log("\n" + out.String())
}

func TestWhatIsNotThereFailsAndIsNamed(t *testing.T) {
	var out, errors strings.Builder
	if status := run([]string{"-addr", "127.0.0.1:1", "-timeout", "100ms"}, &out, &errors); status != 1 {
		t.Errorf("status %d", status)
	}
	if strings.Count(out.String(), "FAILED") != len(checks) {
		t.Errorf("not all failed:\n%s", out.String())
	}
	if status := run([]string{"-only", "nothing"}, &out, &errors); status != 2 || !strings.Contains(errors.String(), "there are plain streams") {
		t.Errorf("status %d: %s", status, errors.String())
	}
}
