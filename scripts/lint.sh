#!/usr/bin/env bash
# Runs gofmt, go vet, staticcheck, and shellcheck if it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

unformatted=$(git ls-files '*.go' | xargs gofmt -l)
if [ -n "$unformatted" ]; then
	echo "not formatted by gofmt: $unformatted" >&2
	exit 1
fi
go vet ./...
GOARCH=arm64 go build ./...
# Everything builds for macOS, and so do the tests of what needs neither eBPF nor a VM.
GOOS=darwin go build ./...
GOOS=darwin go vet ./diagram/... ./dq/... \
	./internal/{config,dashboard,eval,exact,export,figures,outcome,pairing,plot,recording,scope,snapshot,tui,worst}
go tool staticcheck ./...
if command -v shellcheck >/dev/null; then
	git ls-files '*.sh' .ci/run | xargs shellcheck
fi
