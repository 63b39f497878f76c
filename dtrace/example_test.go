package dtrace_test

import (
	"fmt"

	"github.com/beamscope/beamscope/dtrace"
)

func ExampleLookup() {
	p, _ := dtrace.Lookup("process-scheduled")
	fmt.Println(p.Name, "is", p.State)
	for _, a := range p.Args {
		fmt.Println(a.Name, a.Type)
	}
	// Output:
	// process__scheduled is dirty only
	// pid pid
	// mfa mfa
}
