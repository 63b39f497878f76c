#!/usr/bin/env bash
# Runs the demonstration, on an Erlang VM with probes that is built if there is
# none. Where eBPF cannot be used, beamscope shows a recording, which needs no VM.
set -euo pipefail
cd "$(dirname "$0")/.."

if bin/beamscope doctor --quiet; then
	erl=$(erlang/otp/build.sh)
	echo "Erlang VM with probes: $erl" >&2
fi
exec bin/beamscope demo
