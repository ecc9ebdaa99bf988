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

package record

import (
	"fmt"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// Memory is so much of it.
func Memory(value int64) *si.Resource {
	return &si.Resource{Resources: map[string]*si.Quantity{"memory": {Value: value}}}
}

// Nodes brings n0, n1 … with so much room each.
func Nodes(rm string, count int, room int64) *si.NodeRequest {
	request := &si.NodeRequest{RmID: rm}
	for n := range count {
		request.Nodes = append(request.Nodes, &si.NodeInfo{
			NodeID: fmt.Sprintf("n%d", n), Action: si.NodeInfo_CREATE, SchedulableResource: Memory(room),
		})
	}
	return request
}

// Application is a new one.
func Application(id, queue string) *si.AddApplicationRequest {
	return &si.AddApplicationRequest{
		ApplicationID: id, QueueName: queue, PartitionName: "default",
		Ugi: &si.UserGroupInformation{User: "alice", Groups: []string{"staff"}},
	}
}

// Ask wants room for so much memory.
func Ask(app, key string, size int64) *si.Allocation {
	return &si.Allocation{ApplicationID: app, AllocationKey: key, PartitionName: "default", ResourcePerAlloc: Memory(size)}
}

// Release gives something back.
func Release(rm, app, key string, why si.TerminationType) *si.AllocationRequest {
	return &si.AllocationRequest{RmID: rm, Releases: &si.AllocationReleasesRequest{AllocationsToRelease: []*si.AllocationRelease{
		{PartitionName: "default", ApplicationID: app, AllocationKey: key, TerminationType: why},
	}}}
}
