package bpf

import (
	"testing"

	"github.com/beamscope/beamscope/usdt"
)

func TestLoad(t *testing.T) {
	c, err := New(Options{Outcomes: []Outcome{{Name: "worker_1", DMax: 50e6, BinWidth: 1e6, Bins: 50, Stream: true, ExitFails: true}}, Start: 1, Window: 1e9})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	defer c.Close()
	rbp := func(d int64) usdt.Arg {
		return usdt.Arg{Kind: usdt.ArgMemory, Size: 8, Base: 4, Index: usdt.NoRegister, Disp: d}
	}
	args := []usdt.Arg{{Kind: usdt.ArgRegister, Size: 8, Base: 2, Index: -1}}
	for i := range int64(9) {
		args = append(args, rbp(-5360+8*i))
	}
	p, err := c.program(kernelProgSpan, args)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	i, _ := p.Info()
	n, _ := i.Instructions()
	js, _ := i.JitedSize()
	t.Log(len(n), js)
	p, err = c.program(kernelProgProcessExit, args)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	if s, err := c.Sweep(12345); err != nil {
		t.Fatal(s, err)
	}
}
