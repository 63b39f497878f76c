#!/usr/bin/env bash
# Runs all tests. The last line counts them. With CI=true nothing that needs the
# Erlang VM or eBPF is skipped, and some tests run on VMs of OTP 27 and 29 too.
# With MATRIX=1 the tests that observe live VMs run once on each of these releases and kinds of VM, and
# the table of features in docs/reference/vm-outcomes.md is compared with what each of them offers.
# VMs that are missing are built first, each in 5 to 10 minutes, once.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh go

if [ "$(id -u)" = 0 ] || [ "${CI:-}" = true ]; then
	erl=$(erlang/otp/build.sh)
	echo "Erlang VM with probes: $erl" >&2
	if [ "${CI:-}" = true ] || [ -n "${MATRIX:-}" ]; then
		for release in 27 29; do
			OTP=$release erlang/otp/build.sh >/dev/null
		done
	fi
	scripts/need.sh tmux bpftrace
	for tool in mix rebar3; do
		erlang/tool.sh "$tool" >/dev/null
	done
	[ "$(uname -m)" != x86_64 ] || scripts/need.sh qemu-system-x86_64
else
	echo "not root: tests that attach to an Erlang VM are skipped, the others use the bundled recording" >&2
fi

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
status=0

# run GROUP PACKAGES FLAG...: runs the tests of packages. One that passes gets one line. If few
# tests fail, each of them runs once more: whatever runs beside a virtual machine can delay a live
# VM. A test that fails again fails the run.
run() {
	touch "$out/$1.again"
	go tool gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg --jsonfile "$out/$1.json" --packages "$2" \
		--rerun-fails=1 --rerun-fails-max-failures=20 --rerun-fails-report "$out/$1.again" -- -timeout 20m "${@:3}" || status=$?
}

# The tests that observe a live VM import vmtest. They need all processors, so they run one package
# at a time. The others run side by side, and so do those of kernels: an emulator has its own clock.
kernels=$(go list ./internal/testing/kernels)
tests=$(go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | grep -v "^$kernels ")
packages() { cut -d ' ' -f 1 | tr '\n' ' '; }
run others "$kernels $(grep -v internal/testing/vmtest <<<"$tests" | packages)" "$@"
run live "$(grep internal/testing/vmtest <<<"$tests" | packages)" -p 1 "$@"
# The live suites once more, on the VMs of other kinds and releases.
matrix() {
	erl=$(OTP=$2 erlang/otp/build.sh)
	echo "live suites on the kind of VM \"$1\", OTP $2" >&2
	BEAMSCOPE_VM=$1 BEAMSCOPE_OTP=${erl%/bin/erl} go test -p 1 -timeout 20m -count=1 \
		./bpf ./erlang ./internal/beam/fire/... ./internal/beam/procname ./internal/beam/vm ./internal/engine/session \
		./internal/explain ./internal/sources/ring ./internal/sources/sampled ./internal/sources/vmsource ./internal/ui/top ||
		status=$?
}
if [ -n "${MATRIX:-}" ]; then
	for kind in probes stock stripped; do
		for release in 25 27 29; do
			matrix "$kind" "$release"
		done
	done
fi
sed 's/^/run again: /' "$out"/*.again
# Counts each test by the result of its last run.
sed -nE 's/.*"Action":"(pass|fail|skip)","Package":"([^"]*)","Test":"(([^"\\]|\\.)*)".*/\1 \2 \3/p' "$out"/*.json | awk '
	{ result = $1; $1 = ""; last[$0] = result }
	END {
		for (test in last) count[last[test]]++
		printf "%d passed, %d failed, %d skipped\n", count["pass"], count["fail"], count["skip"]
	}'
exit "$status"
