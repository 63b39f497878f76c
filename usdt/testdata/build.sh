#!/bin/sh
# Makes the compiled fixtures of package usdt. On Debian 12:
# apt install gcc clang binutils-aarch64-linux-gnu systemtap-sdt-dev
# shellcheck disable=SC2086 # flags are several words
set -eu
cd "$(dirname "$0")"
flags="-O1 -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables -nostdlib -Wl,--build-id=sha1"
# Headers are the same for all machines, but Debian keeps them with one.
headers="-isystem /usr/include -isystem /usr/include/x86_64-linux-gnu"

gcc $flags -fpie -static-pie fixture.c plain.c -o x86_64-pie
gcc $flags -fno-pie -no-pie -static fixture.c plain.c -o x86_64-exec
gcc $flags -fpic -shared -Wl,-s fixture.c plain.c -o x86_64-stripped.so
clang --target=aarch64-linux-gnu $headers $flags -fpie -static-pie -fuse-ld=/usr/bin/aarch64-linux-gnu-ld \
	-Wl,-z,max-page-size=4096 fixture.c plain.c -o aarch64-pie
