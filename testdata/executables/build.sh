#!/bin/sh
# Makes the executables that tests of several packages read. On Debian 12: apt install gcc clang systemtap-sdt-dev
# shellcheck disable=SC2086 # flags are several words
set -eu
cd "$(dirname "$0")"
flags="-ffile-prefix-map=$PWD=. -O1 -fpic -shared -nostdlib -Wl,--build-id=sha1 structures.c"

gcc -g -gdwarf-5 $flags -o dwarf5.so
gcc -g -gdwarf-4 -gz=zlib $flags -o dwarf4-compressed.so
clang -g $flags -o clang.so
gcc -g -DMISSING $flags -o missing.so
gcc -g -DDAMAGED $flags -o other-size.so
gcc $flags -Wl,-s -o stripped.so
objcopy --only-keep-debug dwarf5.so dwarf5.debug
objcopy --compress-debug-sections=zstd dwarf5.so dwarf5-zstd.so

flags="-ffile-prefix-map=$PWD=. -O2 -fpic -shared -nostdlib -Wl,--build-id=sha1 variables.c"
gcc -g -gdwarf-5 $flags -o variables5.so
gcc -g -gdwarf-4 -gz=zlib $flags -o variables4.so
gcc -g -DGONE $flags -o variables-gone.so
gcc $flags -Wl,-s -o variables-stripped.so
gcc -g -DSPILLED -DSTAP_SDT_ARG_CONSTRAINT=m $flags -o variables-spilled.so
gcc -g -DSPILLED -DSTAP_SDT_ARG_CONSTRAINT=m -fno-omit-frame-pointer $flags -o variables-framed.so
