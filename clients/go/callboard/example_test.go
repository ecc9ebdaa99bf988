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
	"fmt"
	"log"
	"os"

	"github.com/apache/yunikorn-core/callboard"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// A shim of its own: it starts whatever is placed.
type starter struct{ done chan struct{} }

func (s *starter) UpdateAllocation(response *si.AllocationResponse) error {
	for _, new := range response.New {
		fmt.Println("start", new.AllocationKey, "on", new.NodeID)
		close(s.done)
	}
	return nil
}
func (s *starter) UpdateApplication(response *si.ApplicationResponse) error {
	for _, accepted := range response.Accepted {
		fmt.Println("application", accepted.ApplicationID)
	}
	return nil
}
func (s *starter) UpdateNode(response *si.NodeResponse) error {
	for _, accepted := range response.Accepted {
		fmt.Println("node", accepted.NodeID)
	}
	return nil
}
func (s *starter) Predicates(*si.PredicatesArgs) error { return nil }
func (s *starter) PreemptionPredicates(*si.PreemptionPredicatesArgs) *si.PreemptionPredicatesResponse {
	return nil
}
func (s *starter) SendEvent([]*si.EventRecord)                                              {}
func (s *starter) UpdateContainerSchedulingState(*si.UpdateContainerSchedulingStateRequest) {}

// A whole shim: it registers, brings a node and an application, and asks for room.
func Example() {
	addr := os.Getenv("CALLBOARD_EXAMPLE_ADDR")
	client, err := callboard.New(callboard.Options{Addrs: []string{addr}, Logger: quiet()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Stop()
	shim := &starter{done: make(chan struct{})}
	config := "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]"
	if _, err = client.RegisterResourceManager(&si.RegisterResourceManagerRequest{RmID: "example", PolicyGroup: "queues", Config: config}, shim); err != nil {
		log.Fatal(err)
	}
	room := &si.Resource{Resources: map[string]*si.Quantity{"memory": {Value: 1 << 30}, "vcore": {Value: 4000}}}
	size := &si.Resource{Resources: map[string]*si.Quantity{"memory": {Value: 1 << 20}, "vcore": {Value: 500}}}
	requests := []error{
		client.UpdateNode(&si.NodeRequest{RmID: "example", Nodes: []*si.NodeInfo{
			{NodeID: "node-1", Action: si.NodeInfo_CREATE, SchedulableResource: room},
		}}),
		client.UpdateApplication(&si.ApplicationRequest{RmID: "example", New: []*si.AddApplicationRequest{
			{ApplicationID: "app-1", QueueName: "root.a", PartitionName: "default", Ugi: &si.UserGroupInformation{User: "alice"}},
		}}),
		client.UpdateAllocation(&si.AllocationRequest{RmID: "example", Allocations: []*si.Allocation{
			{AllocationKey: "task-1", ApplicationID: "app-1", PartitionName: "default", ResourcePerAlloc: size},
		}}),
	}
	for _, err := range requests {
		if err != nil {
			log.Fatal(err)
		}
	}
	<-shim.done
}

// Several addresses, encryption and a token; and a shim that goes on when a server has lost its session.
func ExampleNew() {
	client, err := callboard.New(callboard.Options{
		Addrs:     []string{"callboard-0:9090", "callboard-1:9090"},
		TokenFile: "/nowhere/token",
		Replay:    true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Stop()
	// Output: callboard: token file: stat /nowhere/token: no such file or directory
}
