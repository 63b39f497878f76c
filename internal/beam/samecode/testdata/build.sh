#!/usr/bin/env bash
# Builds the executable that tests of package samecode change: small.
set -euo pipefail
cd "$(dirname "$0")"
gcc -O1 -fPIE -pie -nostdlib -rdynamic -s -Wl,--build-id=none -Wl,-z,noseparate-code -Wl,-z,max-page-size=4096 -o small small.c
