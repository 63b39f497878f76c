package hits

//go:generate go tool bpf2go -target amd64,arm64 -output-suffix _gen -type counter kernel hits.bpf.c -- -O2 -mcpu=v3 -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
