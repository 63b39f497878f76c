# Every target installs the missing tools that it needs, if it is allowed to.

.DEFAULT_GOAL := build
# scripts/go.sh installs Go there where the system has none.
export PATH := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/beamscope/go/bin:$(PATH)
.PHONY: build generate otp demo test test-short fuzz mutants kernels bench lint

build:
	@scripts/need.sh go
	@[ -e bin/beamscope ] || echo 'building beamscope: the first time takes about two minutes' >&2
	go build -o bin/beamscope ./cmd/beamscope

# Rebuilds the committed eBPF objects and what goes with them.
generate:
	@scripts/need.sh go clang
	go generate ./...

# Builds an Erlang VM with probes into the cache folder, once. The last line is
# the path of its erl. OTP=27 asks for another release than the system's own.
otp:
	@erlang/otp/build.sh

# OTP=stock shows it on the Erlang VM that the distribution ships.
demo: build
ifeq ($(OTP),stock)
	@scripts/need.sh erl
	@bin/beamscope demo --stock
else
	@bin/beamscope demo
endif

test:
	@scripts/test.sh

# The tests that need neither an Erlang VM nor eBPF, nor long: about a minute.
test-short:
	@scripts/need.sh go
	go test -short ./...

# Looks for inputs that break what reads foreign data, 10 s for each target.
fuzz:
	@scripts/fuzz.sh

# Changes the code in one place at a time, and prints the changes that no test notices.
# MUTANTS='-seed 2 dq' is handed on: see docs/internals/tests.md.
mutants:
	@scripts/mutants.sh $(MUTANTS)

# Tries other kernels in an emulator, and writes what works there into docs/reference/kernels.md. Some
# minutes.
kernels:
	@scripts/kernels/all.sh

bench:
	@scripts/bench.sh

lint:
	@scripts/need.sh go shellcheck codespell
	@scripts/lint.sh
