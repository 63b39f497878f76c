#!/usr/bin/env bash
# Tries all kernels, see internal/testing/kernels, and writes what works there into
# its results.json and docs/reference/kernels.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts/need.sh go qemu-system-x86_64 qemu-system-aarch64
erl=$(erlang/otp/build.sh)
echo "Erlang VM with probes: $erl" >&2
CI=true go test ./internal/testing/kernels -count=1 -v -timeout 2h -all -update "$@"
