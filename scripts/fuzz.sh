#!/usr/bin/env bash
# Fuzzes every target for some seconds, and prints the number of inputs of each. Failing inputs are
# written to the package's testdata/fuzz, as go test reports.
# Usage: scripts/fuzz.sh [SECONDS [PACKAGE...]]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh go

seconds=${1:-10}
shift || true
status=0
for package in $(go list "${@:-./...}"); do
	for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		# Making an input smaller that is merely interesting would take most of the time.
		if out=$(go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s" -fuzzminimizetime 1x 2>&1); then
			tried=$(grep -o 'execs: [0-9]*' <<<"$out" | tail -n 1)
			echo "ok    $package $target ${tried:-execs: 0}"
		else
			echo "FAIL  $package $target"
			printf '%s\n' "$out"
			status=1
		fi
	done
done
exit "$status"
