#!/usr/bin/env bash
# Runs all tests. The last line counts them. With CI=true nothing that needs the
# Erlang VM or eBPF is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh go

if [ "$(id -u)" = 0 ] || [ "${CI:-}" = true ]; then
	erl=$(erlang/otp/build.sh)
	echo "Erlang VM with probes: $erl" >&2
	scripts/need.sh tmux bpftrace
	[ "$(uname -m)" != x86_64 ] || scripts/need.sh qemu-system-x86_64
else
	echo "not root: tests that attach to an Erlang VM are skipped, the others use the bundled recording" >&2
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
# One package at a time: those that observe live VMs need the processors for themselves.
# What passed is not worth more than a line for its package.
go tool gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg --jsonfile "$log" -- \
	-p 1 -timeout 20m "$@" ./... || status=$?
count() { grep -cE "\"Action\":\"$1\",.*\"Test\":" "$log" || true; }
echo "$(count pass) passed, $(count fail) failed, $(count skip) skipped"
exit "$status"
