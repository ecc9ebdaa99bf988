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
	"fmt"
	"math"
	"slices"

	"github.com/apache/yunikorn-core/callboardv1"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/protobuf/proto"
)

// Until the server has said what it takes.
const (
	usualItems = 100_000
	usualBytes = 8 << 20
	// What a frame around a request takes at most: names, numbers, lengths.
	frame = 4 << 10
)

// pending is a request that the server has not acknowledged.
type pending struct {
	request *callboardv1.Request
	items   int
	sent    bool
	// Closed with the outcome of a configuration; nil for all else.
	done chan error
}

// outbox keeps the requests of a session in order until they are acknowledged. The session's lock guards it.
type outbox struct {
	queue []*pending
	// Items of the queue, and those of them that are on their way.
	items, flying int
	// The number of the last request; how many of the queue were sent over the present stream.
	last     uint64
	sent     int
	credits  int
	maxItems int
	maxBytes int
}

func newOutbox() outbox {
	return outbox{credits: usualItems, maxItems: usualItems, maxBytes: usualBytes}
}

// add puts a request at the end and gives it the next number.
func (o *outbox) add(request *callboardv1.Request, items int) *pending {
	o.last++
	request.Sequence = o.last
	entry := &pending{request: request, items: items}
	o.queue = append(o.queue, entry)
	o.items += items
	return entry
}

// next is the request that may go out now, nil where none may.
func (o *outbox) next() *pending {
	if o.sent == len(o.queue) || (o.flying > 0 && o.flying >= o.credits) {
		return nil
	}
	entry := o.queue[o.sent]
	o.sent++
	o.flying += entry.items
	return entry
}

// acknowledged drops what was applied.
func (o *outbox) acknowledged(ack *callboardv1.Ack) {
	for _, refused := range ack.Refused {
		for _, entry := range o.queue {
			if entry.request.Sequence == refused.Sequence && entry.done != nil {
				entry.done <- fmt.Errorf("callboard: %s", refused.Reason)
				entry.done = nil
			}
		}
	}
	for len(o.queue) > 0 && o.queue[0].request.Sequence <= ack.Sequence {
		entry := o.queue[0]
		o.queue[0] = nil
		o.queue = o.queue[1:]
		o.items -= entry.items
		if o.sent > 0 {
			o.sent--
			o.flying -= entry.items
		}
		if entry.done != nil {
			entry.done <- nil
		}
	}
	o.credits = int(min(ack.Credits, 1<<40))
	if ack.MaxItems > 0 && ack.MaxBytes > frame {
		o.maxItems, o.maxBytes = int(min(ack.MaxItems, 1<<40)), int(min(ack.MaxBytes, 1<<40))
	}
}

// reopened makes everything go out again that is not acknowledged.
func (o *outbox) reopened() {
	o.sent, o.flying = 0, 0
}

// A request that the server does not take at all would come again for ever: its number then stands for nothing. Whoever waits
// for its outcome is told now, or would be told that it was applied when nothing was.
func (o *outbox) void(sequence uint64, why error) bool {
	for _, entry := range o.queue {
		if entry.request.Sequence == sequence {
			if entry.done != nil {
				entry.done <- why
				entry.done = nil
			}
			entry.request = &callboardv1.Request{
				Sequence: sequence,
				Request:  &callboardv1.Request_Heartbeat{Heartbeat: &callboardv1.Heartbeat{}},
			}
			return true
		}
	}
	return false
}

// split makes two of a request that is larger than the server takes by now, and what follows it gets the numbers behind them: the
// server has taken none of it. False where it is one item.
func (o *outbox) split(sequence uint64) bool {
	at := slices.IndexFunc(o.queue, func(entry *pending) bool { return entry.request.Sequence == sequence })
	if at < 0 {
		return false
	}
	whole := o.queue[at]
	parts := halves(whole.request)
	if len(parts) < 2 {
		return false
	}
	o.reopened()
	var entries []*pending
	for _, part := range parts {
		part.request.Traceparent = whole.request.Traceparent
		entries = append(entries, &pending{request: part.request, items: part.items})
		o.items += part.items
	}
	o.items -= whole.items
	o.queue = slices.Replace(o.queue, at, at+1, entries...)
	for _, entry := range o.queue[at:] {
		// Another one: whoever sends it over the stream that has ended may read it still.
		request := entry.request
		entry.request = &callboardv1.Request{Sequence: sequence, Traceparent: request.Traceparent, Request: request.Request}
		sequence++
	}
	o.last = sequence - 1
	return true
}

// halves are two requests that come to the same, one after the other; less of them where it is one item.
func halves(request *callboardv1.Request) []part {
	const all = math.MaxInt
	var parts []part
	// Whatever fits into all is one part.
	node := func(nodes []*si.NodeInfo) {
		some, _ := nodeParts(&si.NodeRequest{Nodes: nodes}, all, all)
		parts = append(parts, some...)
	}
	application := func(new []*si.AddApplicationRequest, remove []*si.RemoveApplicationRequest) {
		some, _ := applicationParts(&si.ApplicationRequest{New: new, Remove: remove}, all, all)
		parts = append(parts, some...)
	}
	allocation := func(asks []*si.Allocation, going []*si.AllocationRelease) {
		releases := &si.AllocationReleasesRequest{AllocationsToRelease: going}
		some, _ := allocationParts(&si.AllocationRequest{Allocations: asks, Releases: releases}, all, all)
		parts = append(parts, some...)
	}
	nodes := request.GetNode().GetNodes()
	new, remove := request.GetApplication().GetNew(), request.GetApplication().GetRemove()
	asks, going := request.GetAllocation().GetAllocations(), request.GetAllocation().GetReleases().GetAllocationsToRelease()
	switch {
	case len(nodes) > 1:
		node(nodes[:len(nodes)/2])
		node(nodes[len(nodes)/2:])
	case len(new) > 0 && len(remove) > 0:
		application(new, nil)
		application(nil, remove)
	case len(new)+len(remove) > 1:
		application(new[:len(new)/2], remove[:len(remove)/2])
		application(new[len(new)/2:], remove[len(remove)/2:])
	case len(asks) > 0 && len(going) > 0:
		allocation(asks, nil)
		allocation(nil, going)
	case len(asks)+len(going) > 1:
		allocation(asks[:len(asks)/2], going[:len(going)/2])
		allocation(asks[len(asks)/2:], going[len(going)/2:])
	}
	return parts
}

// As the server counts: eight entries of an item are one more.
func weigh(entries int) int { return 1 + entries/8 }

func types(resource *si.Resource) int { return len(resource.GetResources()) }

func nodeItems(node *si.NodeInfo) int {
	return weigh(len(node.GetAttributes()) + types(node.GetSchedulableResource()))
}

func applicationItems(new *si.AddApplicationRequest) int {
	return weigh(len(new.GetTags()) + len(new.GetUgi().GetGroups()) + types(new.GetPlaceholderAsk()))
}

func allocationItems(allocation *si.Allocation) int {
	return weigh(len(allocation.GetAllocationTags()) + types(allocation.GetResourcePerAlloc()))
}

// chunks are parts of a list that the server takes as one request each.
func chunks[T proto.Message](list []T, items func(T) int, most, bytes int) ([][]T, error) {
	var parts [][]T
	from, count, size := 0, 0, 0
	for at, item := range list {
		// Tag and length of the item, at most.
		itsItems, itsSize := items(item), proto.Size(item)+8
		if itsItems > most || itsSize > bytes {
			return nil, fmt.Errorf("callboard: item %d of the request has %d bytes and counts as %d items: the server takes at most %d and %d",
				at, itsSize, itsItems, bytes, most)
		}
		if at > from && (count+itsItems > most || size+itsSize > bytes) {
			parts = append(parts, list[from:at])
			from, count, size = at, 0, 0
		}
		count += itsItems
		size += itsSize
	}
	if from < len(list) {
		parts = append(parts, list[from:])
	}
	return parts, nil
}

func sum[T any](list []T, items func(T) int) int {
	total := 0
	for _, item := range list {
		total += items(item)
	}
	return total
}

func one[T any](T) int { return 1 }

// A part of a request that the server takes, and its items.
type part struct {
	request *callboardv1.Request
	items   int
}

// What comes in one request is one step, where the server takes it.
func fits(request proto.Message, items, most, bytes int) bool {
	return items > 0 && items <= most && proto.Size(request) <= bytes-frame
}

func nodeParts(request *si.NodeRequest, most, bytes int) ([]part, error) {
	lists, err := chunks(request.GetNodes(), nodeItems, most, bytes-frame)
	if err != nil {
		return nil, err
	}
	var parts []part
	for _, nodes := range lists {
		node := &callboardv1.Request_Node{Node: &si.NodeRequest{Nodes: nodes, RmID: request.GetRmID()}}
		parts = append(parts, part{&callboardv1.Request{Request: node}, sum(nodes, nodeItems)})
	}
	return parts, nil
}

func applicationParts(request *si.ApplicationRequest, most, bytes int) ([]part, error) {
	news, err := chunks(request.GetNew(), applicationItems, most, bytes-frame)
	if err != nil {
		return nil, err
	}
	removes, err := chunks(request.GetRemove(), one, most, bytes-frame)
	if err != nil {
		return nil, err
	}
	var parts []part
	add := func(message *si.ApplicationRequest, items int) {
		message.RmID = request.GetRmID()
		application := &callboardv1.Request_Application{Application: message}
		parts = append(parts, part{&callboardv1.Request{Request: application}, items})
	}
	items := sum(request.GetNew(), applicationItems) + len(request.GetRemove())
	if fits(request, items, most, bytes) {
		add(&si.ApplicationRequest{New: request.GetNew(), Remove: request.GetRemove()}, items)
		return parts, nil
	}
	for _, new := range news {
		add(&si.ApplicationRequest{New: new}, sum(new, applicationItems))
	}
	for _, remove := range removes {
		add(&si.ApplicationRequest{Remove: remove}, len(remove))
	}
	return parts, nil
}

func allocationParts(request *si.AllocationRequest, most, bytes int) ([]part, error) {
	allocations, err := chunks(request.GetAllocations(), allocationItems, most, bytes-frame)
	if err != nil {
		return nil, err
	}
	releases, err := chunks(request.GetReleases().GetAllocationsToRelease(), one, most, bytes-frame)
	if err != nil {
		return nil, err
	}
	var parts []part
	add := func(message *si.AllocationRequest, items int) {
		message.RmID = request.GetRmID()
		allocation := &callboardv1.Request_Allocation{Allocation: message}
		parts = append(parts, part{&callboardv1.Request{Request: allocation}, items})
	}
	items := sum(request.GetAllocations(), allocationItems) + len(request.GetReleases().GetAllocationsToRelease())
	if fits(request, items, most, bytes) {
		add(&si.AllocationRequest{Allocations: request.GetAllocations(), Releases: request.GetReleases()}, items)
		return parts, nil
	}
	for _, list := range allocations {
		add(&si.AllocationRequest{Allocations: list}, sum(list, allocationItems))
	}
	for _, list := range releases {
		add(&si.AllocationRequest{Releases: &si.AllocationReleasesRequest{AllocationsToRelease: list}}, len(list))
	}
	return parts, nil
}
