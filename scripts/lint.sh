#!/usr/bin/env bash
# Runs gofmt, go vet, staticcheck, shellcheck, codespell, and erlc with warnings as errors. A test
# checks the links of the documents: TestLinks in cmd/beamscope.
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
	./internal/{engine/{figures,outcome,scope,worst},files/{config,export,recording,snapshot},sources/pairing,testing/exact,ui/{dashboard,eval,plot,tui}}
go tool staticcheck ./...
git ls-files '*.sh' .ci/run | xargs shellcheck
git ls-files | grep -v testdata/ | xargs codespell

compiled=$(mktemp -d)
trap 'rm -rf "$compiled"' EXIT
erlc=$(dirname "$(erlang/otp/build.sh)")/erlc
git ls-files 'erlang/*.erl' | xargs "$erlc" -Werror -I erlang/beamscope/src -o "$compiled"
