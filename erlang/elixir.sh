#!/usr/bin/env bash
# Prints the folder of the commands of an Elixir for tests. Where none is installed, it unpacks
# Debian's into the cache, once: to install it would bring a second Erlang without probes.
set -euo pipefail
if mix=$(command -v mix); then
	dirname "$(readlink -f "$mix")"
	exit
fi
cache=${XDG_CACHE_HOME:-$HOME/.cache}/beamscope/elixir
bin=$cache/usr/lib/elixir/bin
if ! [ -x "$bin/mix" ]; then
	mkdir -p "$(dirname "$cache")"
	work=$(mktemp -d "$cache.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	cd "$work"
	apt-get download -qq elixir >&2 2>/dev/null || { apt-get update -qq >&2 && apt-get download -qq elixir >&2; }
	dpkg -x elixir_*.deb tree
	mv -T tree "$cache" 2>/dev/null || [ -x "$bin/mix" ] # another one may have been as fast
fi
echo "$bin"
