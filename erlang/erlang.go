// Package erlang is the Erlang side of beamscope, as seen from Go: it finds an
// Erlang VM with USDT probes, compiles the Erlang applications embedded here,
// and runs and steers VMs with them.
//
//	otp, err := erlang.FindOTP(ctx)
//	vm, err := erlang.StartVM(ctx, otp, erlang.Options{Main: []string{"mm1k", "rate=400", "k=10"}})
//	defer vm.Stop()
//	err = vm.Set(ctx, "rate", "2000")
//	info, err := vm.Call(ctx, "mm1k", "info", "[]")
//
// The applications: beamscope, the wrapper that turns spans into hits of a
// probe; dqsd_otel, the same behind the functions of an older wrapper; and
// beamscope_synthetic, systems to look at and load to measure with.
package erlang

import "embed"

//go:embed beamscope/src dqsd_otel/src synthetic/src
var sources embed.FS

//go:embed otp/build.sh
var buildScript string

// applications are the embedded folders and the applications in them.
func applications() map[string]string {
	return map[string]string{
		"beamscope": "beamscope",
		"dqsd_otel": "dqsd_otel",
		"synthetic": "beamscope_synthetic",
	}
}
