#!/usr/bin/env bash
# Prints the path of a root file system with Debian's own Erlang VM, for chroot: its executable is as
# Debian built it, and runs with the C library of its own suite. mmdebstrap makes it once, in the cache
# folder. It has the packages that erlang-base needs, about 80 MB.
#
# Usage: scripts/stock-root.sh 27|29
#
# Only root may make it, and run a VM in it.
set -euo pipefail
shopt -s inherit_errexit

release=${1:-}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
hooks=/usr/share/mmdebstrap/hooks/merged-usr
cache=${XDG_CACHE_HOME:-$HOME/.cache}/beamscope

fail() {
	echo "stock-root.sh: $*" >&2
	exit 1
}

case $release in
27) suite=trixie ;;
29) suite=forky ;;
*) fail "OTP '$release': there are 27 and 29" ;;
esac
root=$cache/root-$release

if [ ! -d "$root" ]; then
	[ "$(id -u)" = 0 ] || fail "only root may make a root file system for OTP $release"
	[ -e "$keyring" ] || fail "needs the package debian-archive-keyring"
	"$(dirname "$0")/need.sh" mmdebstrap
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/root.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	# The list of the testing suite is valid for some days, and a mirror may lag behind.
	if ! mmdebstrap --quiet --aptopt='Acquire::Check-Valid-Until "false"' --mode=root --variant=extract --include=base-files,coreutils,dash,erlang-base --hook-dir="$hooks" \
		"$suite" "$work/root" "deb [signed-by=$keyring] http://deb.debian.org/debian $suite main" >"$work/log" 2>&1; then
		cat "$work/log" >&2
		fail "cannot make a root file system of Debian's $suite"
	fi
	[ -d "$work/root/usr/lib/erlang/releases/$release" ] ||
		fail "Debian's $suite has another release than OTP $release"
	mv -T "$work/root" "$root" 2>/dev/null || [ -d "$root" ] # another run may have been faster
fi
echo "$root"
