# Every target installs what it needs and is missing, as far as it may.

.DEFAULT_GOAL := build
.PHONY: build generate otp demo test fuzz mutants kernels bench lint

build:
	@scripts/need.sh go
	go build -o bin/beamscope ./cmd/beamscope

# Rebuilds the committed eBPF objects and what goes with them.
generate:
	@scripts/need.sh go clang
	go generate ./...

# Builds an Erlang VM with probes into the cache folder, once. The last line is
# the path of its erl. OTP=27 asks for another release than the system's own.
otp:
	@erlang/otp/build.sh

demo: build
	@bin/beamscope demo

test:
	@scripts/test.sh

# Looks for inputs that break what reads foreign data, 10 s for each target.
fuzz:
	@scripts/fuzz.sh

# Changes the code in one place at a time, and prints the changes that no test notices.
# MUTANTS='-seed 2 dq' is handed on: see docs/tests.md.
mutants:
	@scripts/mutants.sh $(MUTANTS)

# Tries other kernels in an emulator, and writes what works there into README.md. Some
# minutes.
kernels:
	@scripts/kernels/all.sh

bench:
	@scripts/bench.sh

lint:
	@scripts/need.sh go
	@scripts/lint.sh
