// A shim that starts whatever is placed, on paper: the tutorial go-shim.md goes through it.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/apache/yunikorn-core/callboard"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

const queues = `
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: batch
`

type starter struct{ started chan string }

func (s *starter) UpdateAllocation(response *si.AllocationResponse) error {
	for _, allocation := range response.New {
		fmt.Println("start", allocation.AllocationKey, "on", allocation.NodeID)
		s.started <- allocation.AllocationKey
	}
	for _, release := range response.Released {
		fmt.Println("ended", release.AllocationKey, release.TerminationType)
	}
	for _, rejected := range response.RejectedAllocations {
		fmt.Println("rejected", rejected.AllocationKey, rejected.Reason)
	}
	return nil
}

func (s *starter) UpdateApplication(response *si.ApplicationResponse) error {
	for _, rejected := range response.Rejected {
		fmt.Println("rejected", rejected.ApplicationID, rejected.Reason)
	}
	return nil
}

func (s *starter) UpdateNode(response *si.NodeResponse) error {
	for _, rejected := range response.Rejected {
		fmt.Println("rejected", rejected.NodeID, rejected.Reason)
	}
	return nil
}

// What a shim may leave to Callboard.
func (s *starter) Predicates(*si.PredicatesArgs) error { return nil }
func (s *starter) PreemptionPredicates(*si.PreemptionPredicatesArgs) *si.PreemptionPredicatesResponse {
	return nil
}
func (s *starter) SendEvent([]*si.EventRecord)                                              {}
func (s *starter) UpdateContainerSchedulingState(*si.UpdateContainerSchedulingStateRequest) {}

func amounts(memory, vcore int64) *si.Resource {
	return &si.Resource{Resources: map[string]*si.Quantity{"memory": {Value: memory}, "vcore": {Value: vcore}}}
}

func main() {
	address := os.Getenv("CALLBOARD_ADDRS")
	if address == "" {
		address = "127.0.0.1:9090"
	}
	client, err := callboard.New(callboard.Options{Addrs: []string{address}, Replay: true})
	check(err)
	defer client.Stop()
	shim := &starter{started: make(chan string, 16)}
	_, err = client.RegisterResourceManager(&si.RegisterResourceManagerRequest{
		RmID: "starter", PolicyGroup: "queues", Config: queues,
	}, shim)
	check(err)

	node := &si.NodeInfo{NodeID: "node-1", Action: si.NodeInfo_CREATE, SchedulableResource: amounts(16<<30, 4000)}
	application := &si.AddApplicationRequest{
		ApplicationID: "app-1", QueueName: "root.batch", PartitionName: "default",
		Ugi: &si.UserGroupInformation{User: "alice"},
	}
	var asks []*si.Allocation
	for n := 1; n <= 3; n++ {
		asks = append(asks, &si.Allocation{
			AllocationKey: fmt.Sprint("task-", n), ApplicationID: "app-1", PartitionName: "default",
			ResourcePerAlloc: amounts(1<<30, 2000),
		})
	}
	check(client.UpdateNode(&si.NodeRequest{RmID: "starter", Nodes: []*si.NodeInfo{node}}))
	check(client.UpdateApplication(&si.ApplicationRequest{RmID: "starter", New: []*si.AddApplicationRequest{application}}))
	check(client.UpdateAllocation(&si.AllocationRequest{RmID: "starter", Allocations: asks}))

	first := <-shim.started
	<-shim.started
	// The first has ended by itself.
	check(client.UpdateAllocation(&si.AllocationRequest{RmID: "starter", Releases: &si.AllocationReleasesRequest{
		AllocationsToRelease: []*si.AllocationRelease{{
			ApplicationID: "app-1", AllocationKey: first, PartitionName: "default",
			TerminationType: si.TerminationType_STOPPED_BY_RM,
		}},
	}}))
	<-shim.started
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
