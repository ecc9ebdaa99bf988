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
	allocations  map[place]*si.Allocation
	// Applications and allocations by their names: answers do not always name the partition.
	named names
	// Allocations by the id of their application.
	of map[string]map[place]struct{}
	// What the shim was told of: that it was accepted, or is placed.
	told map[place]struct{}
	// Keys of all in the order in which they came.
	order  map[place]uint64
	number uint64
}

// place is an id within a partition, that of an allocation within its application.
type place struct{ kind, partition, application, id string }

// name is a place as far as answers tell it.
type name struct{ kind, application, id string }

func (p place) name() name { return name{p.kind, p.application, p.id} }

// names are places by their names.
type names map[name][]place

func (n names) add(at place) { n[at.name()] = append(n[at.name()], at) }

func (n names) remove(at place) {
	name := at.name()
	left := slices.DeleteFunc(n[name], func(other place) bool { return other == at })
	if len(left) == 0 {
		delete(n, name)
		return
	}
	n[name] = left
}

// find gives the places of a name, to go through while they change.
func (n names) find(kind, application, id string) []place {
	return slices.Clone(n[name{kind, application, id}])
}

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
		allocations:  map[place]*si.Allocation{},
		named:        names{},
		of:           map[string]map[place]struct{}{},
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
	return place{kind: kind, partition: partition, id: id}
}

func allocationAt(partition, application, key string) place {
	at := at(anAllocation, partition, key)
	at.application = application
	return at
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
				i.named.add(key)
				i.note(key)
			}
		}
		for _, remove := range asked.Application.GetRemove() {
			i.removeApplication(at(anApplication, remove.GetPartitionName(), remove.GetApplicationID()))
		}
	case *callboardv1.Request_Allocation:
		for _, allocation := range asked.Allocation.GetAllocations() {
			key := allocationAt(allocation.GetPartitionName(), allocation.GetApplicationID(), allocation.GetAllocationKey())
			next := proto.Clone(allocation).(*si.Allocation)
			if before, known := i.allocations[key]; known && next.GetNodeID() == "" {
				// A change of its size leaves it where it is.
				next.NodeID = before.GetNodeID()
			}
			i.allocated(key, next)
		}
		for _, release := range asked.Allocation.GetReleases().GetAllocationsToRelease() {
			i.release(release)
		}
	}
}

func (i *inventory) allocated(at place, allocation *si.Allocation) {
	if _, known := i.allocations[at]; !known {
		i.named.add(at)
		if i.of[at.application] == nil {
			i.of[at.application] = map[place]struct{}{}
		}
		i.of[at.application][at] = struct{}{}
		i.note(at)
	}
	i.allocations[at] = allocation
}

func (i *inventory) forgetAllocation(at place) {
	if _, known := i.allocations[at]; !known {
		return
	}
	forget(i, i.allocations, at)
	i.named.remove(at)
	delete(i.of[at.application], at)
	if len(i.of[at.application]) == 0 {
		delete(i.of, at.application)
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
				i.forgetAllocation(key)
			}
		}
	}
}

func (i *inventory) removeApplication(key place) {
	forget(i, i.applications, key)
	i.named.remove(key)
	i.removeAllocations(key)
}

func (i *inventory) removeAllocations(key place) {
	for at := range i.of[key.id] {
		if at.partition == key.partition {
			i.forgetAllocation(at)
		}
	}
}

func (i *inventory) release(release *si.AllocationRelease) {
	if release.GetAllocationKey() == "" {
		of := at(anApplication, release.GetPartitionName(), release.GetApplicationID())
		i.removeAllocations(of)
		return
	}
	key := allocationAt(release.GetPartitionName(), release.GetApplicationID(), release.GetAllocationKey())
	// The shim could not carry it out: it waits again.
	const failedOnRM = 5
	if known := i.allocations[key]; known != nil && release.GetTerminationType() == failedOnRM {
		known.NodeID = ""
		delete(i.told, key)
		return
	}
	i.forgetAllocation(key)
}

// responded notes what the server answered. Of what it is being told again it has nothing until it says so.
func (i *inventory) responded(call *callboardv1.Call, again *expectation) {
	// An id that is refused may be that of one that is there, which stays there.
	isThere := func(key place) bool {
		_, told := i.told[key]
		return told && !again.has(key)
	}
	refused := func(id string) {
		for _, key := range i.named.find(anApplication, "", id) {
			if !isThere(key) {
				i.removeApplication(key)
			}
		}
	}
	switch told := call.Call.(type) {
	case *callboardv1.Call_Node:
		for _, node := range told.Node.GetRejected() {
			key := at(aNode, "", node.GetNodeID())
			if !isThere(key) {
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
			for _, key := range i.named.find(anApplication, "", application.GetApplicationID()) {
				i.told[key] = struct{}{}
			}
		}
		for _, application := range told.Application.GetRejected() {
			refused(application.GetApplicationID())
		}
		for _, application := range told.Application.GetUpdated() {
			switch application.GetState() {
			case "Rejected":
				refused(application.GetApplicationID())
			case "Completed", "Failed", "Expired":
				for _, key := range i.named.find(anApplication, "", application.GetApplicationID()) {
					i.removeApplication(key)
				}
			}
		}
	case *callboardv1.Call_Allocation:
		for _, new := range told.Allocation.GetNew() {
			key := allocationAt(new.GetPartitionName(), new.GetApplicationID(), new.GetAllocationKey())
			if known := i.allocations[key]; known != nil {
				known.NodeID = new.GetNodeID()
			} else {
				i.allocated(key, proto.Clone(new).(*si.Allocation))
			}
			i.told[key] = struct{}{}
		}
		for _, rejected := range told.Allocation.GetRejectedAllocations() {
			for _, key := range i.named.find(anAllocation, rejected.GetApplicationID(), rejected.GetAllocationKey()) {
				if i.allocations[key].GetNodeID() == "" || again.has(key) {
					i.forgetAllocation(key)
				}
			}
		}
		for _, released := range told.Allocation.GetReleased() {
			// The others go when the shim has confirmed them.
			if released.GetTerminationType() == si.TerminationType_STOPPED_BY_RM {
				i.forgetAllocation(allocationAt(released.GetPartitionName(), released.GetApplicationID(), released.GetAllocationKey()))
			}
		}
	}
}
