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

// Package callboardv1 is the protocol callboard.v1, generated from crates/si/proto/callboard/v1/callboard.proto: what the scheduler interface has
// as an API and lacks over gRPC. Shims use package callboard.
package callboardv1

//go:generate go -C ../internal/gen run . ../../callboardv1
