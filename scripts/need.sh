#!/usr/bin/env bash
# Installs the named tools that are missing, if possible; otherwise prints what to install. Usage:
# scripts/need.sh go|clang|bpftrace|fftw|gcc|tmux ...
set -euo pipefail

# The packages that a tool comes in, on Debian and its relatives.
packages_of() {
	case $1 in
	go) echo ca-certificates curl unzip ;; # what go.sh needs
	clang) echo clang llvm libbpf-dev linux-libc-dev ;;
	erl) echo erlang-base ;;
	gcc) echo gcc libc6-dev ;;
	bpftrace | tmux | mmdebstrap | shellcheck | codespell) echo "$1" ;;
	qemu-system-x86_64) echo qemu-system-x86 ;;
	qemu-system-aarch64) echo qemu-system-arm ;;
	fftw) echo gcc libc6-dev libfftw3-dev ;;
	*) echo "need.sh: unknown tool $1" >&2 && exit 2 ;;
	esac
}

# Go from 1.21 on fetches the toolchain that go.mod asks for by itself. That of Debian 12 is older.
go_is_there() {
	local version
	version=$(go env GOVERSION 2>/dev/null) || return 1
	version=${version#go1.}
	[ "${version%%[!0-9]*}" -ge 21 ]
}

there() {
	case $1 in
	go) go_is_there ;;
	clang) command -v clang >/dev/null && command -v llvm-strip >/dev/null && [ -e /usr/include/bpf/bpf_helpers.h ] ;;
	fftw) command -v cc >/dev/null && [ -e /usr/include/fftw3.h ] ;;
	*) command -v "$1" >/dev/null ;;
	esac
}

for tool in "$@"; do
	there "$tool" && continue
	packages=$(packages_of "$tool")
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "installing $packages" >&2
		apt-get update -qq >&2
		# shellcheck disable=SC2086
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null
	fi
	if [ "$tool" = go ]; then
		PATH=$("$(dirname "$0")/go.sh"):$PATH
	fi
	if ! there "$tool"; then
		echo "$tool is missing: install $packages" >&2
		exit 1
	fi
done
