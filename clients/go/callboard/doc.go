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

// Package callboard puts a shim on a Callboard server: it gives the api.SchedulerAPI that a shim uses, over gRPC.
//
//	client, err := callboard.New(callboard.Options{Addrs: []string{"127.0.0.1:9090"}})
//	…
//	_, err = client.RegisterResourceManager(&si.RegisterResourceManagerRequest{RmID: "rm-1"}, callback)
//
// # Order
//
// Requests go out in the order of the calls that made them, over one stream, and are applied in that order. Responses for allocations,
// applications and nodes come in the order in which the server made them, one at a time: the next one waits until the handler of the
// one before has returned. Questions about predicates come side by side, at most [Options.PredicateWorkers] at a time; events and
// container states come in order on a goroutine of their own, and are dropped, and counted, when more than [Options.EventQueue] wait.
//
// # Lost connections
//
// Requests that the server has not acknowledged are kept and sent again, and the server drops what it has taken before; responses go on
// behind the last one that came. So a lost connection loses and doubles nothing. Of several addresses the next one is tried. What
// cannot be carried on is a session that the server no longer has, since it was restarted without its log, or the resource manager was
// registered by somebody else: then [Options.OnLost] is called, or the client registers again and tells the server what there is, where
// [Options.Replay] is set.
package callboard
