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

func ExampleParseExpr() {
	expr, err := dtrace.ParseExpr(`message__send[receiver="<0.*" and size > 0x100]`)
	fmt.Println(expr, err)
	_, err = dtrace.ParseExpr("gc_minor-start[words>100]")
	fmt.Println(err)
	// Output:
	// message-send[receiver="<0.*" and size>256] <nil>
	// gc_minor-start has no argument words: it has pid (pid), need (words)
	// gc_minor-start[words>100]
	//                ^
}

func ExampleLookupBuiltin() {
	b, _ := dtrace.LookupBuiltin("message")
	fmt.Println("start", b.Rule.Start)
	fmt.Println("via  ", b.Rule.Via)
	fmt.Println("end  ", b.Rule.End)
	fmt.Println(b.Rule.Pairing, b.DMax, b.Bins)
	// Output:
	// start message-send[receiver="<0.*"]
	// via   message-queued
	// end   message-receive
	// fifo 100ms 1000
}

func ExampleRule_Validate() {
	start, _ := dtrace.ParseExpr("message-send")
	end, _ := dtrace.ParseExpr("port-busy")
	rule := dtrace.Rule{Start: start, End: end, Key: dtrace.Key{Start: "sender", End: "sender"}}
	fmt.Println(rule.Validate())
	// Output:
	// end: port-busy has no argument "sender" to be its key: it has port (port), or take thread
}
