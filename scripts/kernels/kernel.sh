#!/usr/bin/env bash
#
# Fetches one of Debian's kernels, once, and prints the path of its image.
#
#   scripts/kernels/kernel.sh 6.12 amd64     # 6.1, 6.12 or newest; amd64 or arm64
#
# The image goes to ${XDG_CACHE_HOME:-$HOME/.cache}/beamscope/kernels. The newest
# kernel is the one that was the newest when it was fetched: remove its folder to
# fetch it anew. Needs Debian or a descendant, and no privileges.
set -euo pipefail
export LC_ALL=C
here=$(dirname "$(realpath "$0")")
# shellcheck source=scripts/kernels/apt.sh
. "$here/apt.sh"

fail() {
	printf 'kernel.sh: %s\n' "$*" >&2
	exit 1
}

# The suite of Debian that has a kernel.
suite_of() {
	case $1 in
	6.1) echo bookworm ;;
	6.12) echo trixie ;;
	newest) echo sid ;;
	*) fail "$1: none of 6.1, 6.12 and newest" ;;
	esac
}

# The package that holds the image of the kernel that linux-image-ARCH depends on: it
# is another one since Linux 6.19.
image_package() {
	local dir=$1 arch=$2 version
	version=$(apt-cache -c "$dir/apt.conf" depends --important "linux-image-$arch" |
		sed -nE 's/^ +Depends: linux-image-([0-9].*)$/\1/p' | head -n 1)
	[ -n "$version" ] || fail "linux-image-$arch depends on no linux-image of a version"
	if [ -n "$(apt-cache -c "$dir/apt.conf" show "linux-binary-$version" 2>/dev/null)" ]; then
		echo "linux-binary-$version"
	else
		echo "linux-image-$version"
	fi
}

main() {
	[ $# = 2 ] || fail "usage: kernel.sh 6.1|6.12|newest amd64|arm64"
	local kernel=$1 arch=$2 cache final package found
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/beamscope/kernels
	final=$cache/$kernel-$arch
	if [ ! -e "$final/vmlinuz" ]; then
		command -v apt-get >/dev/null || fail "needs Debian or a descendant"
		mkdir -p "$cache"
		exec 9>"$cache/$kernel-$arch.lock"
		flock 9
	fi
	if [ ! -e "$final/vmlinuz" ]; then
		work=$(mktemp -d "$cache/.kernel.XXXXXX")
		trap 'rm -rf "$work"' EXIT
		private_apt "$work" "$(suite_of "$kernel")" "$arch"
		package=$(image_package "$work" "$arch")
		echo "fetching $package" >&2
		fetch_package "$work" "$package"
		found=$(find "$work/root" -name 'vmlinuz*' -type f | head -n 1)
		[ -n "$found" ] || fail "$package has no vmlinuz"
		mkdir -p "$work/final"
		mv "$found" "$work/final/vmlinuz"
		rm -rf "$final"
		mv "$work/final" "$final"
	fi
	echo "$final/vmlinuz"
}

main "$@"
