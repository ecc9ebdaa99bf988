// What shims import is called so: a replace line in the go.mod of a shim puts this module there (README.md).
module github.com/apache/yunikorn-core

go 1.26.0

require (
	github.com/apache/yunikorn-scheduler-interface v0.0.0-20250304214837-4513ff3a692d
	github.com/sasha-s/go-deadlock v0.3.9
	go.uber.org/zap v1.28.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/petermattis/goid v0.0.0-20250813065127-a731cc31b4fe // indirect
	go.uber.org/multierr v1.10.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
)
