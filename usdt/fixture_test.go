package usdt

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The values here are those that readelf -n, -l and -s of binutils 2.40 print for the compiled
// programs in testdata.

// fixtureLines writes one line for each site, comparable with the output of readelf.
func fixtureLines(probes []Probe) []string {
	var lines []string
	for _, p := range probes {
		for _, s := range p.Sites {
			var specs []string
			for _, a := range s.Args {
				specs = append(specs, a.Spec)
			}
			lines = append(lines, fmt.Sprintf("%s:%s %#x %#x %#x %s",
				p.Provider, p.Name, s.Address, s.Offset, s.Semaphore, strings.Join(specs, " ")))
		}
	}
	return lines
}

func TestFixtures(t *testing.T) {
	const rip = x86IP
	for _, test := range []struct {
		file         string
		machine      elf.Machine
		buildID      string
		work, offset uint64 // of fixture_work
		lines        []string
		many         []Arg // arguments of fixture:many, which has all kinds
	}{
		{
			file: "x86_64-pie", machine: elf.EM_X86_64, buildID: "ff0fee8352e11ca138e7247efb00d0d62bbd0f2c", work: 0x1024, offset: 0x1024,
			lines: []string{
				"fixture:twin 0x100c 0x100c 0x3048 -8@%rdi -4@%esi -2@%dx",
				"fixture:twin 0x101b 0x101b 0x3048 -8@%rax -1@%sil -4@$17",
				"fixture:many 0x1061 0x1061 0x304c -8@%rdi -4@%edx 1@(%rcx) -8@-32(%rsp) -8@counter(%rip) -4@12+table(%rip) " +
					"1@(%rax,%rdx) -4@$5 -4@$-6 2@%dx -1@%dil 8@%rsi",
				"fixture:never 0x1076 0x1076 0x304a ",
				"fixture:start 0x1084 0x1084 0x304e 8@%rbx",
				"other:plain 0x112a 0x112a 0x0 -8@%rdi",
			},
			many: []Arg{
				reg(8, true, x86DI), reg(4, true, x86DX), mem(1, false, x86CX, NoRegister, 0, 0), mem(8, true, x86SP, NoRegister, 0, -32),
				mem(8, true, rip, NoRegister, 0, 0x4040-0x1061), mem(4, true, rip, NoRegister, 0, 0x4060+12-0x1061),
				mem(1, false, x86AX, x86DX, 1, 0), num(4, true, 5), num(4, true, -6), reg(2, false, x86DX), reg(1, true, x86DI), reg(8, false, x86SI),
			},
		},
		{
			file: "x86_64-exec", machine: elf.EM_X86_64, buildID: "6d6bb4097aaf2d1f3158e154ce91a271b121273e", work: 0x401024, offset: 0x1024,
			lines: []string{
				"fixture:twin 0x40100c 0x100c 0x2068 -8@%rdi -4@%esi -2@%dx",
				"fixture:twin 0x40101b 0x101b 0x2068 -8@%rax -1@%sil -4@$17",
				"fixture:many 0x40105a 0x105a 0x206c -8@%rdi -4@%edx 1@(%rcx) -8@-32(%rsp) -8@counter(%rip) -4@table+12(%rip) " +
					"1@bytes(%rdx) -4@$5 -4@$-6 2@%dx -1@%dil 8@%rsi",
				"fixture:never 0x40106f 0x106f 0x206a ",
				"fixture:start 0x40107b 0x107b 0x206e 8@%rbx",
				"other:plain 0x40111f 0x111f 0x0 -8@%rdi",
			},
			many: []Arg{
				reg(8, true, x86DI), reg(4, true, x86DX), mem(1, false, x86CX, NoRegister, 0, 0), mem(8, true, x86SP, NoRegister, 0, -32),
				mem(8, true, rip, NoRegister, 0, 0x403060-0x40105a), mem(4, true, rip, NoRegister, 0, 0x403080+12-0x40105a),
				mem(1, false, x86DX, NoRegister, 0, 0x403020), num(4, true, 5), num(4, true, -6), reg(2, false, x86DX), reg(1, true, x86DI), reg(8, false, x86SI),
			},
		},
		{
			file: "x86_64-stripped.so", machine: elf.EM_X86_64, buildID: "456895b002e0943614e5ffec2a27b75513ed7785", work: 0x107b, offset: 0x107b,
			lines: []string{
				"fixture:twin 0x1063 0x1063 0x3068 -8@%rdi -4@%esi -2@%dx",
				"fixture:twin 0x1072 0x1072 0x3068 -8@%rax -1@%sil -4@$17",
				"fixture:many 0x10bf 0x10bf 0x306c -8@%rdi -4@%edx 1@(%rcx) -8@-32(%rsp) -8@counter(%rip) -4@12+table(%rip) " +
					"1@(%rax,%rdx) -4@$5 -4@$-6 2@%dx -1@%dil 8@%rsi",
				"fixture:never 0x10db 0x10db 0x306a ",
				"fixture:start 0x10f1 0x10f1 0x306e 8@%rbx",
				"other:plain 0x1195 0x1195 0x0 -8@%rdi",
			},
			many: []Arg{ // without the symbols, which are not exported
				reg(8, true, x86DI), reg(4, true, x86DX), mem(1, false, x86CX, NoRegister, 0, 0), mem(8, true, x86SP, NoRegister, 0, -32),
				unknown(""), unknown(""),
				mem(1, false, x86AX, x86DX, 1, 0), num(4, true, 5), num(4, true, -6), reg(2, false, x86DX), reg(1, true, x86DI), reg(8, false, x86SI),
			},
		},
		{
			file: "aarch64-pie", machine: elf.EM_AARCH64, buildID: "f80755a5c60e09be0d89ff20097a7d69aef40188", work: 0x268, offset: 0x268,
			lines: []string{
				"fixture:twin 0x238 0x238 0x1048 -8@[x11] -4@[x10] -2@[x8]",
				"fixture:twin 0x25c 0x25c 0x1048 -8@[x12] 1@[x11] -4@17",
				"fixture:many 0x2f8 0x2f8 0x104a -8@[x0] -4@[x18] 1@[x17] -8@[x16] -8@[x15] -4@[x14] 1@[x13] -4@5 -4@-6 2@[x11] -1@[x9] 8@[x8]",
				"fixture:never 0x320 0x320 0x104c ",
				"fixture:start 0x358 0x358 0x104e 8@[x8]",
				"other:plain 0x410 0x410 0x0 -8@[x8]",
			},
			many: []Arg{
				mem(8, true, 0, NoRegister, 0, 0), mem(4, true, 18, NoRegister, 0, 0), mem(1, false, 17, NoRegister, 0, 0),
				mem(8, true, 16, NoRegister, 0, 0), mem(8, true, 15, NoRegister, 0, 0), mem(4, true, 14, NoRegister, 0, 0),
				mem(1, false, 13, NoRegister, 0, 0), num(4, true, 5), num(4, true, -6), mem(2, false, 11, NoRegister, 0, 0),
				mem(1, true, 9, NoRegister, 0, 0), mem(8, false, 8, NoRegister, 0, 0),
			},
		},
	} {
		t.Run(test.file, func(t *testing.T) {
			f, err := Open(filepath.Join("testdata", test.file))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if f.Machine() != test.machine || f.BuildID() != test.buildID {
				t.Errorf("machine %v, build ID %s", f.Machine(), f.BuildID())
			}
			address, offset, err := f.Symbol("fixture_work")
			if err != nil || address != test.work || offset != test.offset {
				t.Errorf("fixture_work at %#x, offset %#x, error %v", address, offset, err)
			}
			probes, err := f.Probes("")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.lines, fixtureLines(probes)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			got := probes[1].Sites[0].Args
			for i := range got {
				got[i].Spec = ""
			}
			if diff := cmp.Diff(test.many, got); diff != "" {
				t.Errorf("fixture:many: (-want +got)\n%s", diff)
			}
		})
	}
}
