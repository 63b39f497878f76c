package bpf

//go:generate go tool bpf2go -target amd64,arm64 -output-suffix _gen -type column -type arg_kind -type other -type instance -type failed_instance -type sweep_request -type room -type seen_name -type logged -type off_reason -type off_cpu -type record -type log_head -type pairing -type operand_kind -type test_form -type test_op kernel kernel.bpf.c -- -O2 -mcpu=v3 -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu

//go:generate go tool bpf2go -target amd64,arm64 -output-suffix _gen -type sample -type sampled_vm -type sample_thread -type sample_current sample sample.bpf.c -- -O2 -mcpu=v3 -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu

//go:generate go tool bpf2go -target amd64,arm64 -output-suffix _gen namespace namespace.bpf.c -- -O2 -mcpu=v3 -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
