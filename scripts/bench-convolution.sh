#!/usr/bin/env bash
# Measures the algebra next to gonum and, if available, FFTW3. Arguments go to
# bench/convolution.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh go
other=()
if scripts/need.sh fftw; then
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	cc -O2 -Wall -Wextra -o "$dir/fftw_bench" dq/testdata/fftw_bench.c -lfftw3 -lm
	other=(-fftw "$dir/fftw_bench")
else
	echo "going on without FFTW3" >&2
fi
go run ./bench/convolution "${other[@]}" "$@"
