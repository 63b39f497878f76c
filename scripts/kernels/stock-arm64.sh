#!/usr/bin/env bash
#
# Fetches the Erlang VM of Debian's own package for arm64, once, and prints the folder with the files
# that depend on the processor. They replace the files of the same names in the VM that
# erlang/otp/build.sh has built of the same source.
#
#   scripts/kernels/stock-arm64.sh 25     # 25 or 27
#
# The files go to ${XDG_CACHE_HOME:-$HOME/.cache}/beamscope/arm64-stock-<version>, and the libraries
# that they need to its folder "sysroot". The versions are those in dtrace/builds_gen.go. Needs
# Debian or a descendant, and no privileges.
set -euo pipefail
export LC_ALL=C
here=$(dirname "$(realpath "$0")")
# shellcheck source=scripts/kernels/apt.sh
. "$here/apt.sh"

fail() {
	printf 'stock-arm64.sh: %s\n' "$*" >&2
	exit 1
}

main() {
	[ $# = 1 ] || fail "usage: stock-arm64.sh 25|27"
	local suite version cache final package erts
	case $1 in
	25) suite=bookworm version=1:25.2.3+dfsg-1+deb12u4 ;;
	27) suite=trixie version=1:27.3.4.1+dfsg-1+deb13u4 ;;
	*) fail "OTP $1: there are 25 and 27" ;;
	esac
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/beamscope
	final=$cache/arm64-stock-${version#*:}
	if [ ! -d "$final" ]; then
		command -v apt-get >/dev/null || fail "needs Debian or a descendant"
		mkdir -p "$cache"
		exec 9>"$cache/arm64-stock-$1.lock"
		flock 9
	fi
	if [ ! -d "$final" ]; then
		work=$(mktemp -d "$cache/.arm64.XXXXXX")
		trap 'rm -rf "$work"' EXIT
		private_apt "$work" "$suite" arm64
		for package in "erlang-base=$version" libc6 libgcc-s1 libstdc++6 libtinfo6 zlib1g; do
			fetch_package "$work" "$package"
		done
		erts=$(basename "$work"/root/usr/lib/erlang/erts-*)
		mkdir -p "$work/final/$erts/bin" "$work/final/sysroot"
		cp "$work/root/usr/lib/erlang/$erts/bin"/{beam.smp,erlexec,erl_child_setup,inet_gethost} "$work/final/$erts/bin/"
		cp -a "$work/root/usr" "$work/final/sysroot/"
		if [ -d "$work/root/lib" ]; then
			cp -a "$work/root/lib" "$work/final/sysroot/"
		else
			ln -s usr/lib "$work/final/sysroot/lib"
		fi
		rm -rf "$work/final/sysroot/usr/lib/erlang" "$work/final/sysroot/usr/share"
		mv "$work/final" "$final"
	fi
	echo "$final"
}

main "$@"
