#!/usr/bin/env bash
# Prints the path of Debian's own Erlang VM, beam.smp, which has no probes. It comes from the
# package erlang-base, which is unpacked into the cache folder and not installed. The versions of
# OTP 25 and 27 are the newest that dtrace/builds_gen.go knows. That of OTP 29 is the one that Debian's
# testing suite has when the script runs first.
#
# Usage: scripts/stock.sh [25|27|29]
#
# OTP 27 is of Debian 13, and OTP 29 of Debian's testing suite. They need later libraries than
# Debian 12 has. The script fetches these too, and patchelf has the executable find them. That
# moves nothing but headers and strings.
set -euo pipefail
shopt -s inherit_errexit

release=${1:-25}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
cache=${XDG_CACHE_HOME:-$HOME/.cache}/beamscope

fail() {
	echo "stock.sh: $*" >&2
	exit 1
}

case $release in
25) suite=bookworm version=1:25.2.3+dfsg-1+deb12u4 libraries=() ;;
27) suite=trixie version=1:27.3.4.1+dfsg-1+deb13u4 libraries=(libc6 libstdc++6 libgcc-s1 libtinfo6 zlib1g) ;;
29) suite=forky version="" libraries=(libc6 libstdc++6 libgcc-s1 libtinfo6 zlib1g) ;;
*) fail "OTP $release: there are 25, 27 and 29" ;;
esac
root=$cache/stock-$release
[ -z "$version" ] || root=$cache/stock-${version#*:}

# fetch FOLDER: downloads the packages, with lists of their own.
fetch() (
	cd "$1" || return
	mkdir -p apt/sources apt/lists/partial apt/cache/archives/partial
	cat >apt/sources/suite.sources <<-END
		Types: deb
		URIs: http://deb.debian.org/debian
		Suites: $suite
		Components: main
		Signed-By: $keyring
	END
	cat >apt/conf <<-END
		Dir::Etc::sourcelist "/dev/null";
		Dir::Etc::sourceparts "$1/apt/sources";
		Dir::State::lists "$1/apt/lists";
		Dir::State::status "/dev/null";
		Dir::Cache "$1/apt/cache";
		APT::Sandbox::User "root";
	END
	export APT_CONFIG=$1/apt/conf
	if ! { apt-get -q update && apt-get -q download "erlang-base${version:+=$version}" "${libraries[@]}" "${tools[@]}"; } >log 2>&1; then
		cat log >&2
		fail "cannot download erlang-base${version:+ $version} of Debian's $suite"
	fi
)

# adapt FOLDER: has the executable there find the C library that is there.
adapt() {
	local lib=$root/usr/lib/x86_64-linux-gnu beam
	beam=$(echo "$1"/usr/lib/erlang/erts-*/bin/beam.smp)
	"$1/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" --library-path "$1/usr/lib/x86_64-linux-gnu" "$1/usr/bin/patchelf" \
		--set-interpreter "$lib/ld-linux-x86-64.so.2" --set-rpath "$lib" "$beam"
}

if [ ! -d "$root" ]; then
	command -v apt-get >/dev/null || fail "needs packages of Debian, and there is no apt-get"
	[ "$(dpkg --print-architecture)" = amd64 ] || fail "the builds that are known are for amd64"
	[ -e "$keyring" ] || fail "needs the package debian-archive-keyring"
	tools=()
	[ ${#libraries[@]} -eq 0 ] || tools=(patchelf)
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/stock.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	fetch "$work"
	for deb in "$work"/*.deb; do
		dpkg -x "$deb" "$work/root"
	done
	[ ${#libraries[@]} -eq 0 ] || adapt "$work/root"
	[ -d "$work/root/usr/lib/erlang/releases/$release" ] ||
		fail "Debian's $suite has another release than OTP $release"
	mv -T "$work/root" "$root" 2>/dev/null || [ -d "$root" ] # another run may have been faster
fi
echo "$root"/usr/lib/erlang/erts-*/bin/beam.smp
