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

// Program gen makes the Go code of callboard.v1 from crates/si/proto/callboard/v1/callboard.proto, without protoc: protocompile reads the
// file, and the two plugins are built from their modules. Run it by `go generate ./callboardv1` in clients/go after a change of the
// file; what it makes is checked in, so that nobody else needs it.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	file = "callboard/v1/callboard.proto"
	// The name under which the module of the scheduler interface registers its file.
	si      = "yunikorn-scheduler-interface/si.proto"
	siGo    = "github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	ourGo   = "github.com/apache/yunikorn-core/callboardv1"
	protos  = "../../../../crates/si/proto"
	license = "license.txt"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: gen DIRECTORY")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(out string) error {
	request, err := describe()
	if err != nil {
		return err
	}
	head, err := os.ReadFile(license)
	if err != nil {
		return err
	}
	for _, plugin := range []string{"google.golang.org/protobuf/cmd/protoc-gen-go", "google.golang.org/grpc/cmd/protoc-gen-go-grpc"} {
		if err := generate(plugin, request, out, head); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return nil
}

// describe reads the files and everything that they import.
func describe() (*pluginpb.CodeGeneratorRequest, error) {
	open := func(path string) (io.ReadCloser, error) {
		name := path
		if path == si {
			name = "si/v1/si.proto"
		}
		text, err := os.ReadFile(filepath.Join(protos, name))
		if err != nil {
			return nil, err
		}
		text = bytes.ReplaceAll(text, []byte(`import "si/v1/si.proto"`), []byte(`import "`+si+`"`))
		return io.NopCloser(bytes.NewReader(text)), nil
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{Accessor: open}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), file)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{file},
		Parameter:      proto.String(strings.Join([]string{"paths=source_relative", "M" + file + "=" + ourGo, "M" + si + "=" + siGo}, ",")),
	}
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		described := protodesc.ToFileDescriptorProto(file)
		if described.Options == nil {
			described.Options = &descriptorpb.FileOptions{}
		}
		request.ProtoFile = append(request.ProtoFile, described)
	}
	add(files[0])
	return request, nil
}

func generate(plugin string, request *pluginpb.CodeGeneratorRequest, out string, head []byte) error {
	input, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	command := exec.Command("go", "run", plugin)
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	output, err := command.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, made := range response.File {
		text := append(bytes.Clone(head), []byte(made.GetContent())...)
		name := filepath.Join(out, filepath.Base(made.GetName()))
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
