#!/usr/bin/env bash
# Installs Go into the cache folder, from the Go module proxy, and prints the folder of its
# commands. The Makefile puts that folder before PATH. For machines whose distribution has no
# Go, or one that is too old.
#
# The Go project publishes each toolchain as a zip file of the module golang.org/toolchain. The
# hashes below come from the Go checksum database.
set -euo pipefail
umask 022

version=1.26.8
declare -A sha256=(
	[amd64]=30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7
	[arm64]=02b36b6787b3ac767668f630e2998df45a3b1f9ffee08d1bf3ef6487cd658d99
)

fail() {
	echo "go.sh: $*: install Go 1.21 or later from https://go.dev/dl" >&2
	exit 1
}

case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*) fail "there is no Go here for $(uname -m)" ;;
esac

cache=${XDG_CACHE_HOME:-$HOME/.cache}/beamscope
final=$cache/go
if [ "$("$final/bin/go" env GOVERSION 2>/dev/null)" = "go$version" ]; then
	echo "$final/bin"
	exit
fi

proxy=${GOPROXY:-}
proxy=${proxy%%[,|]*}
case $proxy in
http://* | https://*) ;;
*) proxy=https://proxy.golang.org ;;
esac

mkdir -p "$cache"
work=$(mktemp -d "$cache/go-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
name=v0.0.1-go$version.linux-$arch
url=$proxy/golang.org/toolchain/@v/$name.zip
echo "fetching Go $version from $url" >&2
curl -fsSL --max-time 600 -o "$work/go.zip" "$url" || fail "cannot fetch $url"
echo "${sha256[$arch]}  $work/go.zip" | sha256sum --check --quiet >&2 || fail "$url is not the file that is expected"
unzip -q "$work/go.zip" -d "$work" || fail "cannot unpack $url"
root=$work/golang.org/toolchain@$name
chmod +x "$root"/bin/* "$root"/pkg/tool/*/*
rm -rf "$final"
mv "$root" "$final"
echo "$final/bin"
