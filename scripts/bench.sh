#!/usr/bin/env bash
# Measures what observing costs spans, the VM and RabbitMQ, what explaining slow spans
# takes and how good it is, what the oscilloscope itself takes, and the algebra: ratios
# from one run, beside other tools.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh go bpftrace
erl=$(erlang/otp/build.sh)
echo "Erlang VM with probes: $erl" >&2
go run ./bench spans
go run ./bench -rounds 10 -length 30s ring
go run ./bench builtins
go run ./bench -rounds 5 prices
go run ./bench -rounds 5 rabbitmq
go run ./bench -rounds 5 drilldown
go run ./bench -rounds 5 sampling
go run ./bench -length 10s edges
go run ./bench/scope
scripts/bench-convolution.sh
go test -run '^$' -bench . ./...
