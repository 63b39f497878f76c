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
else
	echo "not root: tests that attach to an Erlang VM are skipped, the others use the bundled recording" >&2
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
# One package at a time: those that observe live VMs need the processors for themselves.
go test -p 1 -v -timeout 20m "$@" ./... >"$log" 2>&1 || status=$?
# What passed is not worth a line; packages, failures and skips are.
grep -Ev '^[[:space:]]*(=== |--- PASS|PASS$)|no test files' "$log" || true
count() { grep -cE "^[[:space:]]*--- $1" "$log" || true; }
echo "$(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped"
exit "$status"
