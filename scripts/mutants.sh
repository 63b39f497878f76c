#!/usr/bin/env bash
# Changes the code in one place at a time, and prints the changes that no test notices.
# docs/internals/tests.md says more. Usage: scripts/mutants.sh [FLAG...] [PACKAGE...]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh go

program=$(mktemp)
trap 'rm -f "$program"' EXIT
go build -o "$program" ./internal/testing/mutants
nice -n 19 "$program" "$@"
