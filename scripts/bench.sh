#!/usr/bin/env bash
# Measures what observing costs spans, the VM and RabbitMQ, what explaining slow spans
# takes and how good it is, what the oscilloscope itself takes, and the algebra: ratios
# from one run, beside other tools.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh go bpftrace
erl=$(erlang/otp/build.sh)
echo "Erlang VM with probes: $erl" >&2
go run ./internal/bench spans
go run ./internal/bench -rounds 10 -length 30s ring
go run ./internal/bench builtins
go run ./internal/bench -rounds 5 prices
go run ./internal/bench -rounds 5 rabbitmq
go run ./internal/bench -rounds 5 drilldown
go run ./internal/bench -rounds 5 sampling
go run ./internal/bench -length 10s edges
go run ./internal/bench/scope
scripts/bench-convolution.sh
go test -run '^$' -bench . ./...
