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

// Shimcheck is a shim without a cluster: it checks a server, and shows authors of shims what a server does.
//
//	shimcheck -addr 127.0.0.1:9090 [-ca FILE] [-token-file FILE] [-only gang,order] [-timeout 30s]
//
// Each check has a resource manager of its own, named shimcheck-…, and removes it. It prints a table, and ends with status 1 where a
// check fails. Checks of what a server does not have at all (callboard.v1) are skipped.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// settings say where the server is, and how patient to be.
type settings struct {
	addr, tokenFile string
	tls             *tls.Config
	timeout         time.Duration
}

func run(arguments []string, out, errors io.Writer) int {
	flags := flag.NewFlagSet("shimcheck", flag.ContinueOnError)
	flags.SetOutput(errors)
	var s settings
	var ca, only string
	flags.StringVar(&s.addr, "addr", "127.0.0.1:9090", "gRPC address of the server")
	flags.StringVar(&s.tokenFile, "token-file", "", "file with a token of the role shim")
	flags.StringVar(&ca, "ca", "", "file with the certificates that the server's is checked against; without it nothing is encrypted")
	flags.StringVar(&only, "only", "", "names of checks, separated by commas; all where it is empty")
	flags.DurationVar(&s.timeout, "timeout", 30*time.Second, "how long one check may take")
	if err := flags.Parse(arguments); err != nil {
		return 2
	}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			_, _ = fmt.Fprintln(errors, "shimcheck:", err)
			return 2
		}
		s.tls = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		if !s.tls.RootCAs.AppendCertsFromPEM(text) {
			_, _ = fmt.Fprintf(errors, "shimcheck: %s has no certificates\n", ca)
			return 2
		}
	}
	wanted := checks
	if only != "" {
		wanted = nil
		for _, name := range strings.Split(only, ",") {
			at := slices.IndexFunc(checks, func(c check) bool { return c.name == name })
			if at < 0 {
				_, _ = fmt.Fprintf(errors, "shimcheck: no check is called %q: there are %s\n", name, names())
				return 2
			}
			wanted = append(wanted, checks[at])
		}
	}
	return s.all(wanted, out)
}

func names() string {
	var all []string
	for _, check := range checks {
		all = append(all, check.name)
	}
	return strings.Join(all, ", ")
}

// all runs checks one after the other, and prints what came of them.
func (s settings) all(wanted []check, out io.Writer) int {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "CHECK\tRESULT\tTIME\tWHAT IT SAYS")
	failed := 0
	for _, check := range wanted {
		begun := time.Now()
		told, err := s.one(check)
		result := "ok"
		switch {
		case status.Code(err) == codes.Unimplemented:
			result, told = "skipped", "the server has no callboard.v1: "+status.Convert(err).Message()
		case err != nil:
			result, told = "FAILED", err.Error()
			failed++
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%v\t%s\n", check.name, result, time.Since(begun).Round(time.Millisecond), told)
	}
	_ = table.Flush()
	_, _ = fmt.Fprintf(out, "%d checks, %d failed\n", len(wanted), failed)
	if failed > 0 {
		return 1
	}
	return 0
}

func (s settings) one(check check) (told string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	t := &trial{settings: s, ctx: ctx, rm: fmt.Sprintf("shimcheck-%s-%d", strings.ReplaceAll(check.name, " ", "-"), os.Getpid())}
	defer t.cleanUp()
	defer func() {
		switch failure := recover().(type) {
		case nil:
		case fault:
			err = failure.error
		default:
			panic(failure)
		}
	}()
	return check.run(t), nil
}

func (s settings) dial() (*grpc.ClientConn, error) {
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if s.tls != nil {
		options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(s.tls.Clone())))
	}
	if s.tokenFile != "" {
		options = append(options, grpc.WithPerRPCCredentials(token(s.tokenFile)))
	}
	return grpc.NewClient(s.addr, options...)
}

// token is a file that holds one.
type token string

func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	text, err := os.ReadFile(string(t))
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(text))}, err
}

func (t token) RequireTransportSecurity() bool { return false }
