package erlang_test

import (
	"context"
	"fmt"
	"log"

	"github.com/beamscope/beamscope/erlang"
)

// Start a queue whose spans can be observed, change its load, and ask it for figures. A VM with probes
// must have been built before: see [erlang.BuildOTP].
func Example() {
	ctx := context.Background()
	otp, err := erlang.FindOTP(ctx)
	if err != nil {
		log.Fatal(err)
	}
	vm, err := erlang.StartVM(ctx, otp, erlang.Options{Main: []string{"mm1k", "rate=400", "k=10"}})
	if err != nil {
		log.Fatal(err)
	}
	defer vm.Stop()
	if err := vm.Set(ctx, "rate", "2000"); err != nil {
		log.Fatal(err)
	}
	info, err := vm.Call(ctx, "mm1k", "info", "[]")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info)
}
