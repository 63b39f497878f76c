package usdt_test

import (
	"fmt"
	"log"

	"github.com/beamscope/beamscope/usdt"
)

func ExampleFile_Probes() {
	f, err := usdt.Open("testdata/x86_64-pie")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	probes, err := f.Probes("fixture")
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range probes[:1] {
		for _, s := range p.Sites {
			fmt.Printf("%s:%s at offset %#x, semaphore at %#x: %v\n", p.Provider, p.Name, s.Offset, s.Semaphore, s.Args)
		}
	}
	// Output:
	// fixture:twin at offset 0x100c, semaphore at 0x3048: [s64 %rdi s32 %esi s16 %dx]
	// fixture:twin at offset 0x101b, semaphore at 0x3048: [s64 %rax s8 %sil s32 $17]
}
