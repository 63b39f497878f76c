#!/usr/bin/env bash
# Checks form: gofmt, go vet, staticcheck, and shellcheck where it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

unformatted=$(git ls-files '*.go' | xargs gofmt -l)
if [ -n "$unformatted" ]; then
	echo "not formatted by gofmt: $unformatted" >&2
	exit 1
fi
go vet ./...
GOARCH=arm64 go build ./...
go tool staticcheck ./...
if command -v shellcheck >/dev/null; then
	git ls-files '*.sh' .ci/run | xargs shellcheck
fi
