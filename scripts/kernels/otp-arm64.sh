#!/usr/bin/env bash
#
# Cross-builds the parts of an Erlang VM with USDT probes that depend on the processor,
# for arm64, once, and prints their folder. They replace the files of the same names in
# the VM that erlang/otp/build.sh has built of the same source.
#
#   scripts/kernels/otp-arm64.sh
#   OTP=27 scripts/kernels/otp-arm64.sh     # for a release that erlang/otp/build.sh builds
#
# The files go to ${XDG_CACHE_HOME:-$HOME/.cache}/beamscope/arm64-otp-<version>, the
# libraries that they need to its folder "sysroot". Needs Debian or a descendant; missing
# packages are installed when run as root. About five minutes on two cores.
set -euo pipefail
export LC_ALL=C
here=$(dirname "$(realpath "$0")")
# shellcheck source=scripts/kernels/apt.sh
. "$here/apt.sh"

# What the cross build needs.
packages=(gcc-aarch64-linux-gnu g++-aarch64-linux-gnu systemtap-sdt-dev make autoconf m4 perl dpkg-dev)

# Debian's for arm64: the programs beside the emulator, and the libraries that they need.
arm_packages=(erlang-base libc6 libgcc-s1 libstdc++6 zlib1g)

fail() {
	printf 'otp-arm64.sh: %s\n' "$*" >&2
	exit 1
}

install_packages() {
	local p missing=()
	for p in "${packages[@]}"; do
		dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || missing+=("$p")
	done
	[ ${#missing[@]} = 0 ] && return
	[ "$(id -u)" = 0 ] || fail "these packages are needed first: sudo apt-get install ${missing[*]}"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# The emulator of the source in the current folder, for arm64.
build_emulator() {
	local include=$1 native=$2
	mkdir -p "$include/sys"
	cp "$(find /usr/include -path '*sys/sdt.h' | head -n 1)" "$(find /usr/include -path '*sys/sdt-config.h' | head -n 1)" "$include/sys/"
	export ERL_TOP=$PWD PATH=$native/bin:$PATH
	./otp_build autoconf
	CFLAGS="-O2 -g -isystem $include" CXXFLAGS="-O2 -g -isystem $include" CPPFLAGS="-isystem $include" \
		./configure --host=aarch64-linux-gnu --build="$(./make/autoconf/config.guess)" \
		--with-dynamic-trace=systemtap --without-termcap --without-ssl --enable-builtin-zlib
	# dtrace(1) compiles what the probes need: CC and CPATH are for it. Programs of other
	# applications do not build this way; the emulator is done by then.
	CC=aarch64-linux-gnu-gcc CPATH=$include make -j"$(nproc)" emulator DTRACE_ENABLED_2STEP=yes || true
	[ -x bin/aarch64-unknown-linux-gnu/beam.smp ]
}

# The library through which Erlang code fires probes.
build_dyntrace() {
	local include=$1 to=$2
	aarch64-linux-gnu-gcc -shared -fPIC -O2 -D_GNU_SOURCE -DHAVE_CONFIG_H -DUSE_THREADS \
		-DUSE_DYNAMIC_TRACE -DUSE_SYSTEMTAP -I"$include" -Ierts/emulator/beam -Ierts/include \
		-Ierts/include/aarch64-unknown-linux-gnu -Ierts/include/internal \
		-Ierts/include/internal/aarch64-unknown-linux-gnu -Ierts/emulator/sys/unix -Ierts/emulator/sys/common \
		-Ierts/emulator/aarch64-unknown-linux-gnu -Ierts/emulator/aarch64-unknown-linux-gnu/opt/jit \
		-Ierts/aarch64-unknown-linux-gnu -o "$to" lib/runtime_tools/c_src/dyntrace.c
}

main() {
	local cache native version final log
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/beamscope
	native=$(realpath "$(dirname "$("$here/../../erlang/otp/build.sh")")/..")
	version=$(basename "$native")
	version=${version#otp-}
	final=$cache/arm64-otp-$version
	log=$cache/arm64-otp-build.log
	mkdir -p "$cache"
	exec 9>"$cache/arm64-otp.lock"
	flock 9
	if [ ! -d "$final" ]; then
		work=$(mktemp -d "$cache/.arm64.XXXXXX")
		trap 'rm -rf "$work"' EXIT
		echo "cross-building an Erlang VM for arm64, about five minutes; the log is $log" >&2
		# In the background, as a failure ends nothing within a condition.
		build "$native" "$final" >"$log" 2>&1 &
		if ! wait $!; then
			tail -n 20 "$log" >&2
			fail "the build failed; the whole log is $log"
		fi
	fi
	echo "$final"
}

# suite_of NATIVE: the suite of Debian with the source of a VM that erlang/otp/build.sh has built.
suite_of() {
	if [ -e "$1/suite" ]; then
		cat "$1/suite"
	else
		(. /etc/os-release && echo "$VERSION_CODENAME")
	fi
}

build() {
	local native=$1 final=$2 suite source
	install_packages
	suite=$(suite_of "$native")
	private_apt "$work/source" "$suite" amd64 deb-src
	(cd "$work/source" && apt-get -c apt.conf source erlang)
	source=$(dirname "$(printf '%s\n' "$work"/source/erlang-*/OTP_VERSION)")
	[ "$(cat "$source/OTP_VERSION")" = "$(basename "$native" | sed s/^otp-//)" ] ||
		fail "the source is of $(cat "$source/OTP_VERSION"), the native VM is $(basename "$native")"
	(cd "$source" && build_emulator "$work/include" "$native")
	assemble "$native" "$source"
	mv "$work/final" "$final"
}

# assemble NATIVE SOURCE: makes the folder.
assemble() {
	local native=$1 source=$2 arm=$work/arm64 package erts tools
	private_apt "$arm" "$(suite_of "$native")" arm64
	for package in "${arm_packages[@]}"; do
		fetch_package "$arm" "$package"
	done
	erts=$(basename "$native"/lib/erlang/erts-*)
	tools=$(basename "$native"/lib/erlang/lib/runtime_tools-*)
	mkdir -p "$work/final/$erts/bin" "$work/final/lib/$tools/priv/lib" "$work/final/sysroot"
	cp "$arm/root/usr/lib/erlang/$erts/bin"/{erlexec,erl_child_setup,inet_gethost} "$work/final/$erts/bin/"
	cp "$source/bin/aarch64-unknown-linux-gnu/beam.smp" "$work/final/$erts/bin/"
	(cd "$source" && build_dyntrace "$work/include" "$work/final/lib/$tools/priv/lib/dyntrace.so")
	cp -a "$arm/root/usr" "$work/final/sysroot/"
	if [ -d "$arm/root/lib" ]; then
		cp -a "$arm/root/lib" "$work/final/sysroot/"
	else
		ln -s usr/lib "$work/final/sysroot/lib" # as it is installed
	fi
	rm -rf "$work/final/sysroot/usr/lib/erlang" "$work/final/sysroot/usr/share"
}

main "$@"
