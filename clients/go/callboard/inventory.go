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
	"slices"
	"strings"

	"github.com/apache/yunikorn-core/callboardv1"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/protobuf/proto"
)

// inventory is what a server has to be told when it knows nothing: as the shim asked for it, and as it was answered.
type inventory struct {
	nodes        map[place]*knownNode
	applications map[place]*si.AddApplicationRequest
	// Applications by their ids: answers do not name the partition.
	named       map[string][]place
	allocations map[place]*si.Allocation
	// What the shim was told of: that it was accepted, or is placed.
	told map[place]struct{}
	// Keys of all in the order in which they came.
	order  map[place]uint64
	number uint64
}

// place is an id within a partition.
type place struct{ kind, partition, id string }

type knownNode struct {
	info        *si.NodeInfo
	schedulable bool
}

const (
	aNode         = "node"
	anApplication = "application"
	anAllocation  = "allocation"
	// Where a message names no partition.
	usualPartition = "default"
)

func newInventory() *inventory {
	return &inventory{
		nodes:        map[place]*knownNode{},
		applications: map[place]*si.AddApplicationRequest{},
		named:        map[string][]place{},
		allocations:  map[place]*si.Allocation{},
		told:         map[place]struct{}{},
		order:        map[place]uint64{},
	}
}

func at(kind, partition, id string) place {
	// The server may put the resource manager in front: [rm-1]default.
	if _, plain, prefixed := strings.Cut(partition, "]"); prefixed && strings.HasPrefix(partition, "[") {
		partition = plain
	}
	if partition == "" {
		partition = usualPartition
	}
	return place{kind, partition, id}
}

func (i *inventory) note(at place) {
	if _, known := i.order[at]; !known {
		i.number++
		i.order[at] = i.number
	}
}

// inOrder gives the keys of a map in the order in which they came.
func inOrder[V any](i *inventory, known map[place]V) []place {
	keys := make([]place, 0, len(known))
	for key := range known {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b place) int { return int(i.order[a]) - int(i.order[b]) })
	return keys
}

func forget[V any](i *inventory, known map[place]V, at place) {
	delete(known, at)
	delete(i.order, at)
	delete(i.told, at)
}

// requested notes what the shim asks for.
func (i *inventory) requested(request *callboardv1.Request) {
	switch asked := request.Request.(type) {
	case *callboardv1.Request_Node:
		for _, node := range asked.Node.GetNodes() {
			i.node(node)
		}
	case *callboardv1.Request_Application:
		for _, new := range asked.Application.GetNew() {
			key := at(anApplication, new.GetPartitionName(), new.GetApplicationID())
			if _, known := i.applications[key]; !known {
				i.applications[key] = proto.Clone(new).(*si.AddApplicationRequest)
				i.named[key.id] = append(i.named[key.id], key)
				i.note(key)
			}
		}
		for _, remove := range asked.Application.GetRemove() {
			i.removeApplication(at(anApplication, remove.GetPartitionName(), remove.GetApplicationID()))
		}
	case *callboardv1.Request_Allocation:
		for _, allocation := range asked.Allocation.GetAllocations() {
			key := at(anAllocation, allocation.GetPartitionName(), allocation.GetAllocationKey())
			next := proto.Clone(allocation).(*si.Allocation)
			if before, known := i.allocations[key]; known && next.GetNodeID() == "" {
				// A change of its size leaves it where it is.
				next.NodeID = before.GetNodeID()
			}
			i.allocations[key] = next
			i.note(key)
		}
		for _, release := range asked.Allocation.GetReleases().GetAllocationsToRelease() {
			i.release(release)
		}
	}
}

func (i *inventory) node(node *si.NodeInfo) {
	key := at(aNode, "", node.GetNodeID())
	known := i.nodes[key]
	switch node.GetAction() {
	case si.NodeInfo_CREATE, si.NodeInfo_CREATE_DRAIN:
		if known == nil {
			i.nodes[key] = &knownNode{info: proto.Clone(node).(*si.NodeInfo), schedulable: node.GetAction() == si.NodeInfo_CREATE}
			i.note(key)
		}
	case si.NodeInfo_UPDATE:
		if known != nil && node.GetSchedulableResource() != nil {
			known.info.SchedulableResource = proto.Clone(node.GetSchedulableResource()).(*si.Resource)
		}
	case si.NodeInfo_DRAIN_NODE, si.NodeInfo_DRAIN_TO_SCHEDULABLE:
		if known != nil {
			known.schedulable = node.GetAction() == si.NodeInfo_DRAIN_TO_SCHEDULABLE
		}
	case si.NodeInfo_DECOMISSION:
		forget(i, i.nodes, key)
		for key, allocation := range i.allocations {
			if allocation.GetNodeID() == node.GetNodeID() {
				forget(i, i.allocations, key)
			}
		}
	}
}

func (i *inventory) removeApplication(key place) {
	forget(i, i.applications, key)
	i.named[key.id] = slices.DeleteFunc(i.named[key.id], func(other place) bool { return other == key })
	if len(i.named[key.id]) == 0 {
		delete(i.named, key.id)
	}
	i.removeAllocations(key)
}

func (i *inventory) removeAllocations(key place) {
	for at, allocation := range i.allocations {
		if at.partition == key.partition && allocation.GetApplicationID() == key.id {
			forget(i, i.allocations, at)
		}
	}
}

func (i *inventory) release(release *si.AllocationRelease) {
	if release.GetAllocationKey() == "" {
		of := at(anApplication, release.GetPartitionName(), release.GetApplicationID())
		i.removeAllocations(of)
		return
	}
	key := at(anAllocation, release.GetPartitionName(), release.GetAllocationKey())
	// The shim could not carry it out: it waits again.
	const failedOnRM = 5
	if known := i.allocations[key]; known != nil && release.GetTerminationType() == failedOnRM {
		known.NodeID = ""
		delete(i.told, key)
		return
	}
	forget(i, i.allocations, key)
}

// responded notes what the server answered.
func (i *inventory) responded(call *callboardv1.Call) {
	switch told := call.Call.(type) {
	case *callboardv1.Call_Node:
		for _, node := range told.Node.GetRejected() {
			// Only one that never came: an update of one that is there leaves it there.
			key := at(aNode, "", node.GetNodeID())
			if _, accepted := i.told[key]; !accepted {
				forget(i, i.nodes, key)
			}
		}
		for _, node := range told.Node.GetAccepted() {
			key := at(aNode, "", node.GetNodeID())
			if _, known := i.nodes[key]; known {
				i.told[key] = struct{}{}
			}
		}
	case *callboardv1.Call_Application:
		for _, application := range told.Application.GetAccepted() {
			for _, key := range i.named[application.GetApplicationID()] {
				i.told[key] = struct{}{}
			}
		}
		for _, application := range told.Application.GetRejected() {
			for _, key := range slices.Clone(i.named[application.GetApplicationID()]) {
				i.removeApplication(key)
			}
		}
		for _, application := range told.Application.GetUpdated() {
			switch application.GetState() {
			case "Completed", "Failed", "Expired", "Rejected":
				for _, key := range slices.Clone(i.named[application.GetApplicationID()]) {
					i.removeApplication(key)
				}
			}
		}
	case *callboardv1.Call_Allocation:
		for _, new := range told.Allocation.GetNew() {
			key := at(anAllocation, new.GetPartitionName(), new.GetAllocationKey())
			if known := i.allocations[key]; known != nil {
				known.NodeID = new.GetNodeID()
			} else {
				i.allocations[key] = proto.Clone(new).(*si.Allocation)
				i.note(key)
			}
			i.told[key] = struct{}{}
		}
		for _, rejected := range told.Allocation.GetRejectedAllocations() {
			for key, allocation := range i.allocations {
				if key.id == rejected.GetAllocationKey() && allocation.GetApplicationID() == rejected.GetApplicationID() &&
					allocation.GetNodeID() == "" {
					forget(i, i.allocations, key)
				}
			}
		}
		for _, released := range told.Allocation.GetReleased() {
			// The others go when the shim has confirmed them.
			if released.GetTerminationType() == si.TerminationType_STOPPED_BY_RM {
				forget(i, i.allocations, at(anAllocation, released.GetPartitionName(), released.GetAllocationKey()))
			}
		}
	}
}
