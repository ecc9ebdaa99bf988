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

// Package entrypoint starts what a shim calls the core: here a client of a Callboard server. A shim that is built against this module
// needs no change; where the server is, its environment or its flags say (see [Settings]).
package entrypoint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/apache/yunikorn-core/callboard"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/api"
	"go.uber.org/zap"
)

// ServiceContext is what a shim gets.
type ServiceContext struct {
	// RMProxy is the scheduler.
	RMProxy api.SchedulerAPI
}

// StopAll ends the client. The server goes on.
func (s *ServiceContext) StopAll() {
	if s.RMProxy != nil {
		s.RMProxy.Stop()
	}
}

// StartAllServices gives a scheduler that logs as slog does.
func StartAllServices() *ServiceContext { return start(slog.Default()) }

// StartAllServicesWithLogger gives a scheduler that logs with the shim. What the configuration of its logger says is in the logger.
func StartAllServicesWithLogger(logger *zap.Logger, _ *zap.Config) *ServiceContext {
	if logger == nil {
		return StartAllServices()
	}
	return start(slog.New(&zapHandler{logger: logger.Named("callboard")}))
}

// StartAllServicesWithParams gives a scheduler. The server schedules by itself and has its own web page: so the first must be false,
// and the second is left aside.
func StartAllServicesWithParams(manualSchedule, _ bool) *ServiceContext {
	if manualSchedule {
		fail(slog.Default(), errors.New("a Callboard server schedules by itself: manual scheduling is for tests of the core"))
	}
	return StartAllServices()
}

func start(logger *slog.Logger) *ServiceContext {
	settings, err := settings()
	if err != nil {
		fail(logger, err)
	}
	options, err := settings.Options()
	if err != nil {
		fail(logger, err)
	}
	options.Logger = logger
	client, err := callboard.New(options)
	if err != nil {
		fail(logger, err)
	}
	logger.Info("the scheduler is a Callboard server", "addrs", options.Addrs, "tls", options.TLS != nil, "replay", options.Replay)
	return &ServiceContext{RMProxy: client}
}

// fail ends the process: a shim knows no other way to be told that there is no scheduler.
func fail(logger *slog.Logger, err error) {
	logger.Error("no scheduler", "error", err)
	os.Exit(1)
}

// Settings say where the server is. Each is a variable of the environment, and a flag that wins over it.
type Settings struct {
	// Addrs are gRPC addresses, separated by commas: CALLBOARD_ADDRS, -callboard-addrs. 127.0.0.1:9090 where neither says anything.
	Addrs string
	// CA is a file with the certificates that the server's is checked against: CALLBOARD_CA, -callboard-ca. Without it the
	// connection is not encrypted, unless TLS is true.
	CA string
	// TLS encrypts, and checks against the certificates of the system: CALLBOARD_TLS, -callboard-tls.
	TLS string
	// ServerName is what the certificate has to name, where that is not the address: CALLBOARD_SERVER_NAME, -callboard-server-name.
	ServerName string
	// TokenFile holds the token: CALLBOARD_TOKEN_FILE, -callboard-token-file.
	TokenFile string
	// Web is the base URL of the HTTP door: CALLBOARD_WEB, -callboard-web.
	Web string
	// Replay tells a server that has lost the session what there is, in place of ending the process: CALLBOARD_REPLAY,
	// -callboard-replay.
	Replay string
}

// Whatever the shim itself has as flags; these are among them when it parses its own.
var flags = declare(flag.CommandLine)

func declare(set *flag.FlagSet) *Settings {
	s := &Settings{}
	for _, one := range s.all() {
		set.StringVar(one.value, "callboard-"+one.name, "", one.help+" (environment: "+one.variable()+")")
	}
	return s
}

type setting struct {
	name, help string
	value      *string
}

func (s setting) variable() string {
	return "CALLBOARD_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

func (s *Settings) all() []setting {
	return []setting{
		{"addrs", "gRPC addresses of Callboard, separated by commas", &s.Addrs},
		{"ca", "file with the certificates that Callboard's is checked against", &s.CA},
		{"tls", "true: encrypt, and check against the system's certificates", &s.TLS},
		{"server-name", "name in Callboard's certificate, where it is not the address", &s.ServerName},
		{"token-file", "file with the token for Callboard", &s.TokenFile},
		{"web", "base URL of Callboard's HTTP door", &s.Web},
		{"replay", "true: tell a server that lost the session what there is, instead of ending", &s.Replay},
	}
}

// settings are those of the flags, else of the environment. A shim that has parsed its flags has parsed these; of one that takes
// none, they are looked for among its arguments.
func settings() (*Settings, error) {
	given := *flags
	if !flag.Parsed() {
		if err := given.among(os.Args[1:]); err != nil {
			return nil, err
		}
	}
	given.environment(os.LookupEnv)
	return &given, nil
}

func (s *Settings) among(arguments []string) error {
	for at := 0; at < len(arguments); at++ {
		name, value, with := strings.Cut(strings.TrimLeft(arguments[at], "-"), "=")
		name, ours := strings.CutPrefix(name, "callboard-")
		if !ours || !strings.HasPrefix(arguments[at], "-") {
			continue
		}
		known := false
		for _, one := range s.all() {
			if one.name != name {
				continue
			}
			known = true
			if !with {
				at++
				if at == len(arguments) {
					return fmt.Errorf("flag -callboard-%s needs a value", name)
				}
				value = arguments[at]
			}
			*one.value = value
		}
		if !known {
			return fmt.Errorf("flag -callboard-%s is not known", name)
		}
	}
	return nil
}

func (s *Settings) environment(lookup func(string) (string, bool)) {
	for _, one := range s.all() {
		if value, set := lookup(one.variable()); set && *one.value == "" {
			*one.value = value
		}
	}
}

// Options are those of a client with these settings.
func (s *Settings) Options() (callboard.Options, error) {
	options := callboard.Options{TokenFile: s.TokenFile, Web: s.Web}
	addrs := s.Addrs
	if addrs == "" {
		addrs = "127.0.0.1:9090"
	}
	for _, addr := range strings.Split(addrs, ",") {
		if addr = strings.TrimSpace(addr); addr != "" {
			options.Addrs = append(options.Addrs, addr)
		}
	}
	var err error
	if options.Replay, err = yes("replay", s.Replay); err != nil {
		return options, err
	}
	encrypted, err := yes("tls", s.TLS)
	if err != nil {
		return options, err
	}
	if encrypted || s.CA != "" {
		options.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.ServerName}
	}
	if s.CA != "" {
		text, err := os.ReadFile(s.CA)
		if err != nil {
			return options, fmt.Errorf("certificates: %w", err)
		}
		options.TLS.RootCAs = x509.NewCertPool()
		if !options.TLS.RootCAs.AppendCertsFromPEM(text) {
			return options, fmt.Errorf("certificates: %s has none", s.CA)
		}
	}
	return options, nil
}

func yes(name, value string) (bool, error) {
	if value == "" {
		return false, nil
	}
	is, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("%s: %q is not true or false", name, value)
	}
	return is, nil
}
