package bpf_test

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/debuginfo"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// A places finds the instructions of a VM with probes at which its functions stand in for the probes:
// those that correspond to the places of the known builds without probes. The registers of their
// arguments come from the debugging information.
type places struct {
	t       testing.TB
	path    string
	file    *usdt.File
	data    *debuginfo.Data
	symbols map[string]elf.Symbol
	probes  []usdt.Probe
	build   dtrace.Build
}

// placesOf returns the places of an executable with probes as if they were those of a build.
func placesOf(t testing.TB, path string, file *usdt.File) dtrace.Build {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if file.Machine() != elf.EM_X86_64 {
		t.Skip("the places in code for other processors are not known")
	}
	image, err := vm.ImageOf(file)
	must(err)
	data, err := debuginfo.Read(t.Context(), file)
	must(err)
	table, err := elf.Open(path)
	must(err)
	defer table.Close()
	symbols, err := table.Symbols()
	must(err)
	p := places{
		t: t, path: path, file: file, data: data, probes: image.Probes, symbols: make(map[string]elf.Symbol),
		build: dtrace.Build{ID: file.BuildID(), Package: "a VM with probes", Release: image.Release},
	}
	for _, s := range symbols {
		p.symbols[s.Name] = s
	}
	p.collections()
	p.lives()
	p.messages()
	p.fetch()
	p.ports()
	return p.build
}

// collections adds what the builds have in garbage_collect: the first instruction behind each probe
// that the kernel emulates. Minor collections that free memory pass the place of the major ones' ends
// too.
func (p *places) collections() {
	for _, probe := range []string{"gc_minor__start", "gc_major__start", "gc_minor__end", "gc_major__end"} {
		for _, site := range p.sites(probe) {
			at := p.behind("garbage_collect", site.Address)
			place := dtrace.Place{Probe: probe, Function: "garbage_collect", Address: at}
			if strings.HasSuffix(probe, "end") {
				place.Args = []string{"", p.variable(at, "reclaimed_now")}
			} else {
				place.Args = []string{p.pointed(at, "p", 0), ""}
			}
			if probe == "gc_major__end" {
				place.Probe, place.Other = "gc_minor__end", probe
			}
			p.add(place)
		}
	}
}

// lives adds spawns, exits and calls of native functions: entries and returns of functions.
func (p *places) lives() {
	spawn := p.branch("erl_create_process", "process__spawn")
	p.add(dtrace.Place{Probe: "process__spawn", Function: "erl_create_process", Address: spawn, Args: []string{p.pointed(spawn, "p", 0), ""}})
	p.entry("process__exit", "erts_do_exit_process", "8@(%rdi)", "")
	for _, function := range []string{"erts_call_dirty_nif", "erts_call_dirty_bif"} {
		mfa := "8@-24(%rdx)"
		if p.build.Release >= 29 {
			mfa = ""
		}
		p.entry("nif__entry", function, "8@(%rsi)", mfa)
		p.entry("nif__return", function, "", "")
		p.last().Return = true
	}
}

// messages adds the functions that put messages into the queue of their receiver, and the one that
// takes them out.
func (p *places) messages() {
	const sender, second = "8@(%rdi)", "8@(%rsi)"
	unknown := []string{"", "", "", "", ""}
	for _, last := range [][2]string{{"erts_queue_proc_message", "8@%rcx"}, {"erts_queue_proc_messages", "8@%r8"}} {
		function, message := last[0], last[1]
		p.entry("message__send", function, append([]string{sender, second}, unknown[1:]...)...)
		p.last().Message = message
		p.entry("message__queued", function, append([]string{second}, unknown...)...)
		p.last().Message = message
	}
	for _, function := range []string{"erts_queue_message", "erts_queue_message_token"} {
		p.entry("message__queued", function, append([]string{sender}, unknown...)...)
		p.last().Message = "8@%rdx"
	}
	if p.build.Release < 27 { // for the messages of exit signals, which later builds do not report
		p.entry("message__queued", "queue_messages", append([]string{second}, unknown...)...)
		p.last().Message = "8@%r8"
	}
	for name := range p.symbols {
		if strings.HasPrefix(name, "_Z23beam_jit_remove_message") {
			p.entry("message__receive", name, append([]string{sender}, unknown...)...)
			p.last().Message, p.last().Indirect = fmt.Sprintf("8@%d(%%rdi)", p.member("process", "sig_qs.save")), true
		}
	}
}

// fetch adds the branch of erts_proc_sig_fetch__ that tests whether the list has signals other than messages.
func (p *places) fetch() {
	const function = "erts_proc_sig_fetch__"
	test := fmt.Sprintf("%#x(%%", p.member("process", "sig_inq.nmsigs.next"))
	s := p.symbol(function)
	lines := p.disassemble(s.Value, s.Value+s.Size)
	i := slices.IndexFunc(lines, func(l line) bool { return strings.Contains(l.text, test) })
	if i < 0 {
		p.t.Fatalf("%s does not read %s", function, test)
	}
	at := p.behind(function, lines[i].at)
	receiver := p.pointed(at, "proc", 0)
	p.add(dtrace.Place{
		Probe: "message__queued", Function: function, Address: at, Args: []string{receiver, "", "", "", "", ""},
		Message: p.pointed(at, "proc", p.member("process", "sig_inq.first")), Fetch: true,
		State: "4" + strings.TrimPrefix(p.pointed(at, "proc", p.member("process", "state")), "8"),
	})
}

// ports adds the branches that test whether somebody observes a busy port: each event passes one.
func (p *places) ports() {
	for _, probe := range []string{"port__busy", "port__not_busy"} {
		at := p.branch("set_busy_port", probe)
		p.add(dtrace.Place{Probe: probe, Function: "set_busy_port", Address: at, Args: []string{p.pointed(at, "prt", 0)}})
	}
	at := p.branch("erts_dsig_send", "dist__port_busy")
	p.add(dtrace.Place{Probe: "dist__port_busy", Function: "erts_dsig_send", Address: at, Args: []string{"", p.variable(at, "cid"), "", ""}})
	at = p.branch("erts_dist_port_not_busy", "dist__port_not_busy")
	p.add(dtrace.Place{Probe: "dist__port_not_busy", Function: "erts_dist_port_not_busy", Address: at, Args: []string{"", p.pointed(at, "prt", 0), ""}})
}

func (p *places) last() *dtrace.Place { return &p.build.Places[len(p.build.Places)-1] }

// add adds a place with the code that is there.
func (p *places) add(place dtrace.Place) {
	p.t.Helper()
	place.Code = hex.EncodeToString(p.code(place.Address, 16))
	p.build.Places = append(p.build.Places, place)
}

// entry adds the first instruction of a function, behind the one for indirect calls.
func (p *places) entry(probe, function string, args ...string) {
	p.t.Helper()
	at := p.symbol(function).Value
	at += uint64(usdt.Landing(p.file.Machine(), p.code(at, 16)))
	p.add(dtrace.Place{Probe: probe, Function: function, Address: at, Args: args})
}

func (p *places) sites(probe string) []usdt.Site {
	p.t.Helper()
	i := slices.IndexFunc(p.probes, func(found usdt.Probe) bool { return found.Name == probe })
	if i < 0 {
		p.t.Fatalf("no probe %s", probe)
	}
	return p.probes[i].Sites
}

func (p *places) symbol(name string) elf.Symbol {
	p.t.Helper()
	s, ok := p.symbols[name]
	if !ok {
		p.t.Fatalf("no symbol %s", name)
	}
	return s
}

func (p *places) code(at uint64, n int) []byte {
	p.t.Helper()
	code, err := p.file.Code(at, n)
	if err != nil {
		p.t.Fatal(err)
	}
	return code
}

// branch returns the branch of a function behind its test of a probe's semaphore.
func (p *places) branch(function, probe string) uint64 {
	p.t.Helper()
	s, semaphore := p.symbol(function), p.symbol("erlang_"+probe+"_semaphore").Value
	for at := s.Value; at < s.Value+s.Size; at++ {
		const length = 8 // of cmpw $0,DISTANCE(%rip)
		code := p.code(at, 2*length)
		test := code[0] == 0x66 && code[1] == 0x83 && code[2] == 0x3d && code[7] == 0
		if test && at+length+uint64(int32(binary.LittleEndian.Uint32(code[3:]))) == semaphore && usdt.Emulated(p.file.Machine(), code[length:]) {
			return at + length
		}
	}
	p.t.Fatalf("%s does not test whether %s is observed", function, probe)
	return 0
}

// behind returns the first instruction behind an address of a function that the kernel emulates.
func (p *places) behind(function string, address uint64) uint64 {
	p.t.Helper()
	const most = 200 // bytes
	s := p.symbol(function)
	for _, l := range p.disassemble(address, min(address+most, s.Value+s.Size)) {
		if l.at > address && usdt.Emulated(p.file.Machine(), p.code(l.at, 16)) {
			return l.at
		}
	}
	p.t.Fatalf("the kernel emulates no instruction of %s behind %#x", function, address)
	return 0
}

// A line is an instruction in assembly language.
type line struct {
	at   uint64
	text string
}

// disassemble returns the instructions between two addresses.
func (p *places) disassemble(from, to uint64) (lines []line) {
	p.t.Helper()
	vmtest.NeedProgram(p.t, "objdump")
	out, err := exec.Command("objdump", "-d", "--no-show-raw-insn",
		fmt.Sprintf("--start-address=%#x", from), fmt.Sprintf("--stop-address=%#x", to), p.path).Output()
	if err != nil {
		p.t.Fatal(err)
	}
	for l := range strings.Lines(string(out)) {
		number, text, ok := strings.Cut(strings.TrimSpace(l), ":\t")
		if at, err := strconv.ParseUint(number, 16, 64); ok && err == nil {
			lines = append(lines, line{at, text})
		}
	}
	return lines
}

// member returns the place of a member of a structure.
func (p *places) member(name, path string) uint64 {
	p.t.Helper()
	structs, err := p.data.Structs(name)
	if err != nil {
		p.t.Fatal(err)
	}
	offset, _, err := structs[name].Member(path, 1<<16)
	if err != nil {
		p.t.Fatalf("%s of %s: %v", path, name, err)
	}
	return offset
}

// pointed specifies a word in what a variable points to.
func (p *places) pointed(at uint64, variable string, offset uint64) string {
	p.t.Helper()
	place, err := p.data.Variable(p.file, at, variable)
	if err == nil && place.Memory {
		err = errors.New("it is in memory")
	}
	if err != nil {
		p.t.Fatalf("variable %s at %#x: %v", variable, at, err)
	}
	place.Memory, place.Offset = true, int64(offset)
	return p.spec(place)
}

// variable specifies the value of a variable.
func (p *places) variable(at uint64, name string) string {
	p.t.Helper()
	place, err := p.data.Variable(p.file, at, name)
	if err != nil {
		p.t.Fatalf("variable %s at %#x: %v", name, at, err)
	}
	return p.spec(place)
}

func (p *places) spec(place debuginfo.Place) string {
	p.t.Helper()
	spec, err := place.Spec(p.file.Machine())
	if err != nil {
		p.t.Fatal(err)
	}
	return spec
}
