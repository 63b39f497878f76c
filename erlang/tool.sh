#!/usr/bin/env bash
# Prints the folder of a build tool for tests. Where it is not installed, the script unpacks Debian's
# into the cache, once: to install it would bring a second Erlang without probes. Usage:
# erlang/tool.sh mix|rebar3
set -euo pipefail
case ${1-} in
mix) package=elixir folder=usr/lib/elixir/bin ;;
rebar3) package=rebar3 folder=usr/bin ;;
*) echo "usage: $0 mix|rebar3" >&2 && exit 2 ;;
esac
if tool=$(command -v "$1"); then
	dirname "$(readlink -f "$tool")"
	exit
fi
cache=${XDG_CACHE_HOME:-$HOME/.cache}/beamscope/$package
bin=$cache/$folder
if ! [ -x "$bin/$1" ]; then
	mkdir -p "$(dirname "$cache")"
	work=$(mktemp -d "$cache.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	cd "$work"
	apt-get download -qq "$package" >&2 2>/dev/null || { apt-get update -qq >&2 && apt-get download -qq "$package" >&2; }
	dpkg -x "$package"_*.deb tree
	mv -T tree "$cache" 2>/dev/null || [ -x "$bin/$1" ] # another one may have been as fast
fi
echo "$bin"
