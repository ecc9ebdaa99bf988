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

package entrypoint

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/yunikorn-core/callboard"
	"github.com/apache/yunikorn-core/internal/server"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestFlagsWinOverTheEnvironment(t *testing.T) {
	var s Settings
	if err := s.among([]string{"--other", "x", "-callboard-addrs", "a:1, b:2", "--callboard-replay=true"}); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{"CALLBOARD_ADDRS": "c:3", "CALLBOARD_WEB": "http://w", "CALLBOARD_TLS": "true", "CALLBOARD_SERVER_NAME": "n"}
	s.environment(func(name string) (string, bool) { value, set := environment[name]; return value, set })
	options, err := s.Options()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(options.Addrs, " ") != "a:1 b:2" || !options.Replay || options.Web != "http://w" || options.TLS.ServerName != "n" {
		t.Errorf("%+v", options)
	}
	options, err = (&Settings{}).Options()
	if err != nil || options.Addrs[0] != "127.0.0.1:9090" || options.TLS != nil || options.Replay {
		t.Errorf("without any: %+v %v", options, err)
	}
}

func TestBadSettingsAreTold(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Settings{{Replay: "maybe"}, {TLS: "maybe"}, {CA: "/nowhere"}, {CA: empty}} {
		if _, err := s.Options(); err == nil {
			t.Errorf("%+v: taken", s)
		}
	}
	for _, arguments := range [][]string{{"-callboard-addrs"}, {"-callboard-colour=red"}} {
		if err := new(Settings).among(arguments); err == nil {
			t.Errorf("%v: taken", arguments)
		}
	}
}

func TestWhatIsLoggedGoesToTheLoggerOfTheShim(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	logger := slog.New(&zapHandler{logger: zap.New(core)}).With("rm", "rm-1").WithGroup("g")
	logger.Debug("not")
	logger.Warn("this", "n", 7)
	all := logs.All()
	if len(all) != 1 || all[0].Level != zapcore.WarnLevel || all[0].ContextMap()["g.n"] != int64(7) || all[0].ContextMap()["rm"] != "rm-1" {
		t.Errorf("%+v", all)
	}
	if logger.Enabled(context.Background(), slog.LevelDebug) {
		t.Error("debug is not wanted")
	}
}

func TestAShimGetsAScheduler(t *testing.T) {
	running := server.Start(t)
	t.Setenv("CALLBOARD_ADDRS", running.GRPC)
	services := StartAllServicesWithLogger(zap.NewNop(), nil)
	defer services.StopAll()
	if _, ok := services.RMProxy.(*callboard.Client); !ok {
		t.Fatalf("%T", services.RMProxy)
	}
	_, err := services.RMProxy.RegisterResourceManager(&si.RegisterResourceManagerRequest{RmID: "rm-1", PolicyGroup: "queues"}, callback{})
	if err != nil {
		t.Fatal(err)
	}
}

type callback struct{}

func (callback) UpdateAllocation(*si.AllocationResponse) error   { return nil }
func (callback) UpdateApplication(*si.ApplicationResponse) error { return nil }
func (callback) UpdateNode(*si.NodeResponse) error               { return nil }
func (callback) Predicates(*si.PredicatesArgs) error             { return nil }
func (callback) PreemptionPredicates(*si.PreemptionPredicatesArgs) *si.PreemptionPredicatesResponse {
	return nil
}
func (callback) SendEvent([]*si.EventRecord)                                              {}
func (callback) UpdateContainerSchedulingState(*si.UpdateContainerSchedulingStateRequest) {}
