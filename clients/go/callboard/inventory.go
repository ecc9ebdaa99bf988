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
	"maps"
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
	// All by their names: answers do not always name the partition.
	named names
	// Allocations by the id of their application.
	of map[string]map[place]struct{}
	// What the shim was told of: that it was accepted, or is placed.
	told map[place]struct{}
	// How many messages the server refuses and has not answered yet, by what they are about: they change nothing, and their
	// answers say nothing of what came before or after them under the same name.
	wrong map[name]int
	// How many releases by the shim are not confirmed: what comes under the same key after them stays.
	ended map[place]int
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
	// The attribute in which a node does.
	nodePartition = "si/node-partition"
	// The tag of what another scheduler placed.
	foreign = "foreign"
)

func newInventory() *inventory {
	return &inventory{
		nodes:        map[place]*knownNode{},
		applications: map[place]*si.AddApplicationRequest{},
		allocations:  map[place]*si.Allocation{},
		named:        names{},
		of:           map[string]map[place]struct{}{},
		told:         map[place]struct{}{},
		wrong:        map[name]int{},
		ended:        map[place]int{},
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

// nodeAt is the place of a node: two partitions may have one of the same id.
func nodeAt(node *si.NodeInfo) place {
	return at(aNode, node.GetAttributes()[nodePartition], node.GetNodeID())
}

// takeOne takes one of a count, and says whether there was one.
func takeOne[K comparable](of map[K]int, key K) bool {
	if of[key] == 0 {
		return false
	}
	if of[key]--; of[key] == 0 {
		delete(of, key)
	}
	return true
}

// beginsAgain says that what was not answered never will be.
func (i *inventory) beginsAgain() {
	clear(i.wrong)
	clear(i.ended)
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
			if _, known := i.applications[key]; known {
				i.wrong[key.name()]++
			} else {
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
			if i.isRefused(allocation) {
				i.wrong[key.name()]++
				continue
			}
			next := proto.Clone(allocation).(*si.Allocation)
			_, placed := i.told[key]
			_, theirs := next.GetAllocationTags()[foreign]
			if before, known := i.allocations[key]; known && !theirs && (next.GetNodeID() == "" || placed) {
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

// isRefused says that the server rejects it, and changes nothing of what it knows under this key.
func (i *inventory) isRefused(allocation *si.Allocation) bool {
	_, theirs := allocation.GetAllocationTags()[foreign]
	if _, known := i.applications[at(anApplication, allocation.GetPartitionName(), allocation.GetApplicationID())]; !known && !theirs {
		return true
	}
	some := theirs
	for _, amount := range allocation.GetResourcePerAlloc().GetResources() {
		if amount.GetValue() < 0 {
			return true
		}
		some = some || amount.GetValue() > 0
	}
	if !some || allocation.GetNodeID() == "" {
		return !some || theirs
	}
	_, known := i.nodes[at(aNode, allocation.GetPartitionName(), allocation.GetNodeID())]
	return !known
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
	key := nodeAt(node)
	known := i.nodes[key]
	action := node.GetAction()
	switch {
	case known == nil && (action == si.NodeInfo_CREATE || action == si.NodeInfo_CREATE_DRAIN):
		i.nodes[key] = &knownNode{info: proto.Clone(node).(*si.NodeInfo), schedulable: action == si.NodeInfo_CREATE}
		i.named.add(key)
		i.note(key)
	case known != nil && action == si.NodeInfo_UPDATE:
		known.update(node)
	case known != nil && action == si.NodeInfo_DRAIN_NODE:
		known.schedulable = false
	case known != nil && action == si.NodeInfo_DRAIN_TO_SCHEDULABLE && !known.schedulable:
		known.schedulable = true
	case known != nil && action == si.NodeInfo_DECOMISSION:
		i.forgetNode(key)
		for at, allocation := range i.allocations {
			if allocation.GetNodeID() == node.GetNodeID() && at.partition == key.partition {
				i.forgetAllocation(at)
			}
		}
	default:
		i.wrong[key.name()]++
	}
}

// update: a capacity or attributes that are left out stay, and so does the partition in any case.
func (k *knownNode) update(node *si.NodeInfo) {
	if node.GetSchedulableResource() != nil {
		k.info.SchedulableResource = proto.Clone(node.GetSchedulableResource()).(*si.Resource)
	}
	attributes := maps.Clone(node.GetAttributes())
	delete(attributes, nodePartition)
	if len(attributes) == 0 {
		return
	}
	if partition, named := k.info.Attributes[nodePartition]; named {
		attributes[nodePartition] = partition
	}
	k.info.Attributes = attributes
}

func (i *inventory) forgetNode(key place) {
	forget(i, i.nodes, key)
	i.named.remove(key)
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
	switch release.GetTerminationType() {
	case si.TerminationType_UNKNOWN_TERMINATION_TYPE, si.TerminationType_STOPPED_BY_RM:
		if i.allocations[key] != nil {
			i.ended[key]++
		}
	}
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
	// A message that changed nothing is answered, not what is there of this name.
	wasWrong := func(name name) bool {
		return !slices.ContainsFunc(i.named.find(name.kind, name.application, name.id), again.has) && takeOne(i.wrong, name)
	}
	switch told := call.Call.(type) {
	case *callboardv1.Call_Node:
		for _, node := range told.Node.GetRejected() {
			if wasWrong(name{aNode, "", node.GetNodeID()}) {
				continue
			}
			for _, key := range i.named.find(aNode, "", node.GetNodeID()) {
				if !isThere(key) {
					i.forgetNode(key)
				}
			}
		}
		for _, node := range told.Node.GetAccepted() {
			for _, key := range i.named.find(aNode, "", node.GetNodeID()) {
				i.told[key] = struct{}{}
			}
		}
	case *callboardv1.Call_Application:
		// One that was handed in under an id that was removed is not accepted yet when the end of the one before is told.
		for _, application := range told.Application.GetUpdated() {
			switch application.GetState() {
			case "Completed", "Failed", "Expired":
				for _, key := range i.named.find(anApplication, "", application.GetApplicationID()) {
					if _, told := i.told[key]; told {
						i.removeApplication(key)
					}
				}
			}
		}
		// Before what is refused: that is a second one of the same id.
		for _, application := range told.Application.GetAccepted() {
			for _, key := range i.named.find(anApplication, "", application.GetApplicationID()) {
				i.told[key] = struct{}{}
			}
		}
		for _, application := range told.Application.GetRejected() {
			if !wasWrong(name{anApplication, "", application.GetApplicationID()}) {
				refused(application.GetApplicationID())
			}
		}
		for _, application := range told.Application.GetUpdated() {
			if application.GetState() == "Rejected" {
				refused(application.GetApplicationID())
			}
		}
	case *callboardv1.Call_Allocation:
		for _, new := range told.Allocation.GetNew() {
			key := allocationAt(new.GetPartitionName(), new.GetApplicationID(), new.GetAllocationKey())
			if known := i.allocations[key]; known != nil {
				known.NodeID = new.GetNodeID()
			} else if i.ended[key] > 0 {
				// The shim released it while this was on its way.
				continue
			} else {
				i.allocated(key, proto.Clone(new).(*si.Allocation))
			}
			i.told[key] = struct{}{}
		}
		for _, rejected := range told.Allocation.GetRejectedAllocations() {
			if wasWrong(name{anAllocation, rejected.GetApplicationID(), rejected.GetAllocationKey()}) {
				continue
			}
			for _, key := range i.named.find(anAllocation, rejected.GetApplicationID(), rejected.GetAllocationKey()) {
				if !isThere(key) {
					i.forgetAllocation(key)
				}
			}
		}
		for _, released := range told.Allocation.GetReleased() {
			// The others go when the shim has confirmed them.
			if released.GetTerminationType() != si.TerminationType_STOPPED_BY_RM {
				continue
			}
			key := allocationAt(released.GetPartitionName(), released.GetApplicationID(), released.GetAllocationKey())
			if !takeOne(i.ended, key) {
				i.forgetAllocation(key)
			}
		}
	}
}
