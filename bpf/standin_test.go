package bpf

import (
	"debug/elf"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/usdt"
)

// standing returns a target with stand-in functions, like those of known builds.
func standing(t *testing.T) Target {
	t.Helper()
	arg := func(spec string) usdt.Arg {
		switch spec {
		case "":
			return usdt.Arg{Kind: usdt.ArgUnknown}
		case "function":
			return usdt.Arg{Kind: usdt.ArgAddress, Size: 8, Base: 12, Index: usdt.NoRegister, Disp: -24}
		}
		args, err := usdt.ParseArgs(elf.EM_X86_64, spec)
		if err != nil {
			t.Fatal(err)
		}
		return args[0]
	}
	site := func(function string, address uint64, returns bool, specs ...string) usdt.Site {
		s := usdt.Site{Address: address, Offset: address, Function: function, Return: returns}
		for _, spec := range specs {
			s.Args = append(s.Args, arg(spec))
		}
		return s
	}
	const word = "8@%rdi"
	unknown := []string{"", "", "", "", ""}
	send := site("queue", 1, false, append([]string{word, word}, unknown[:4]...)...)
	queued := site("queue", 1, false, append([]string{word}, unknown...)...)
	receive := site("remove", 2, false, append([]string{word}, unknown...)...)
	either := site("collect", 5, false, word, word)
	message := Message{Arg: arg(word)}
	fetch := site("fetch", 9, false, append([]string{word}, unknown...)...)
	return Target{
		Release: 25, StandIns: true, Terms: Terms{Form: dtrace.TermsByNumber},
		Probes: []usdt.Probe{
			{Name: "message__send", Sites: []usdt.Site{send}},
			{Name: "message__queued", Sites: []usdt.Site{queued}},
			{Name: "message__receive", Sites: []usdt.Site{receive}},
			{Name: "gc_minor__start", Sites: []usdt.Site{site("collect", 3, false, word, word)}},
			{Name: "gc_major__start", Sites: []usdt.Site{site("collect", 4, false, word, "")}},
			{Name: "gc_minor__end", Sites: []usdt.Site{either}},
			{Name: "gc_major__end", Sites: []usdt.Site{either}},
			{Name: "nif__entry", Sites: []usdt.Site{site("call", 6, false, word, "function")}},
			{Name: "nif__return", Sites: []usdt.Site{site("call", 6, true, "", "")}},
			{Name: "process__spawn", Sites: []usdt.Site{site("create", 7, false, word, "function")}},
			{Name: "process__exit", Sites: []usdt.Site{site("exit", 8, false, word, "")}},
		},
		Messages: map[uint64]Message{1: message, 2: message},
		Fetches:  []Fetch{{Site: fetch, First: arg(word), State: arg("4@%esi")}},
		Shared:   map[uint64]string{5: "gc_major__end"},
		Unseen:   map[string]string{"port__busy": "nobody knows", "port__not_busy": "nobody knows"},
	}
}

// The outcomes that can be observed at stand-in functions, and the reasons why others cannot.
func TestStandInsSee(t *testing.T) {
	target := standing(t)
	for name, want := range map[string]string{
		"gc": "", "gc-minor": "", "gc-major": "", "message": "", "mailbox": "", "lifetime": "", "dirty-nif": "",
		"hop": "", "file-io": "",
		"port-busy": "port-not_busy is not seen: nobody knows",
	} {
		b, _ := dtrace.LookupBuiltin(name)
		err := target.Sees(Outcome{Name: name, Rule: &b.Rule})
		if got := errorText(err); got != want || want != "" && !errors.Is(err, ErrNoProbe) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, test := range []struct {
		rule dtrace.Rule
		want string
	}{
		{dtrace.Rule{Start: expression(t, "gc_minor-end"), End: expression(t, "gc_minor-start"), Key: dtrace.Key{Start: dtrace.Thread, End: dtrace.Thread}, Pairing: dtrace.Last}, "nothing in collect"},
		{dtrace.Rule{Start: expression(t, "process-spawn"), End: expression(t, "gc_minor-end"), Key: dtrace.Key{Start: "pid", End: "pid"}, Pairing: dtrace.Last}, "nothing in collect"},
		{dtrace.Rule{Start: expression(t, "gc_minor-end or gc_major-end"), End: expression(t, "process-exit"), Key: dtrace.Key{Start: "pid", End: "pid"}}, ""},
		{dtrace.Rule{Start: expression(t, "gc_minor-end[reclaimed>5] or gc_major-end"), End: expression(t, "process-exit"), Key: dtrace.Key{Start: "pid", End: "pid"}}, "nothing in collect"},
		{dtrace.Rule{Start: expression(t, "message-receive[size>5]"), End: expression(t, "process-exit"), Key: dtrace.Key{Start: "receiver", End: "pid"}}, "remove does not tell the argument size"},
		{dtrace.Rule{Start: expression(t, `message-send[receiver="<0.*"]`), End: expression(t, "process-exit"), Key: dtrace.Key{Start: "receiver", End: "pid"}}, ""},
		{dtrace.Rule{Start: expression(t, `message-send[receiver="<0.1*"]`), End: expression(t, "process-exit"), Key: dtrace.Key{Start: "receiver", End: "pid"}}, "bad rule"},
		{dtrace.Rule{Start: expression(t, "nif-return"), End: expression(t, "process-exit"), Key: dtrace.Key{Start: "pid", End: "pid"}}, "call does not tell the argument pid"},
		{dtrace.Rule{Start: expression(t, "process-spawn"), End: expression(t, "process-exit"), Key: dtrace.Key{Start: "pid", End: "pid"}, Pairing: dtrace.Last}, ""},
		{dtrace.Rule{Start: expression(t, `nif-entry[mfa="prim_file:read_nif/2"]`), End: expression(t, "process-exit"), Key: dtrace.Key{Start: "pid", End: "pid"}}, ""},
		{dtrace.Rule{Start: expression(t, `nif-entry[mfa="'Elixir.File':'a b'/0"]`), End: expression(t, "process-exit"), Key: dtrace.Key{Start: "pid", End: "pid"}}, ""},
		{dtrace.Rule{Start: expression(t, `nif-entry[mfa="prim_file:read*"]`), End: expression(t, "process-exit"), Key: dtrace.Key{Start: "pid", End: "pid"}}, "where call stands in for nif-entry, the argument mfa is compared with whole modules and whole functions only"},
		{dtrace.Rule{Start: expression(t, `nif-entry[mfa="lists:'a\\'b'/1"]`), End: expression(t, "process-exit"), Key: dtrace.Key{Start: "pid", End: "pid"}}, "where call stands in"},
		{dtrace.Rule{Start: expression(t, `nif-entry[mfa!="'Elixir.File':*"]`), End: expression(t, "process-exit"), Key: dtrace.Key{Start: "pid", End: "pid"}}, ""},
	} {
		if got := errorText(target.Sees(Outcome{Rule: &test.rule})); (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) {
			t.Errorf("%v to %v: %q, want %q", test.rule.Start, test.rule.End, got, test.want)
		}
	}
	target.NoTerms, target.Terms = errors.New("odd"), Terms{}
	b, _ := dtrace.LookupBuiltin("lifetime")
	if got := errorText(target.Sees(Outcome{Rule: &b.Rule})); got != "process-exit: odd" {
		t.Errorf("terms: %q", got)
	}
}

// If the VM has a function as terms, a comparison with a whole function becomes one with its
// module, and one with its name and arity.
func TestWholeFunctions(t *testing.T) {
	target := standing(t)
	type form struct {
		Form, Op uint8
		Number   int64
		Length   uint8
	}
	module := func(n uint8) form {
		return form{uint8(kernelTestFormTEST_MODULE), uint8(dtrace.Equal), 0, n}
	}
	function := func(n uint8, arity int64) form {
		return form{uint8(kernelTestFormTEST_FUNCTION), uint8(dtrace.Equal), arity, n}
	}
	for condition, want := range map[string][]form{
		`mfa="prim_file:read_nif/2"`:                      {module(9), function(8, 2)},
		`mfa!="prim_file:read_nif/2"`:                     {module(9), function(8, 2)},
		`mfa="'Elixir.File':read/0"`:                      {module(11), function(4, 0)},
		`not (mfa="a:b/1" or mfa="c:*" or mfa="d:e/255")`: {module(1), function(1, 1), module(1), module(1), function(1, 255)},
	} {
		rule := dtrace.Rule{Start: expression(t, "nif-entry["+condition+"]"), End: expression(t, "process-exit"), Key: dtrace.Key{Start: "pid", End: "pid"}}
		found, err := target.ruleSites(Outcome{Rule: &rule, DMax: 1}, 1)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(found, func(s *sites) bool { return s.variant.special.rule.Tests > 0 })
		if i < 0 {
			t.Fatalf("%s: no tests", condition)
		}
		special := found[i].variant.special
		var got []form
		for _, test := range special.tests[:special.rule.Tests] {
			got = append(got, form{test.Form, test.Op, test.Number, test.Length})
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", condition, got, want)
		}
	}
}

// A message whose address is known from its start on needs no event in between. A send is that of
// a process of the VM.
func TestMessageWithoutVia(t *testing.T) {
	target := standing(t)
	b, _ := dtrace.LookupBuiltin("message")
	o := Outcome{Name: "message", Rule: &b.Rule, DMax: int64(time.Second)}
	found, err := target.ruleSites(o, 7)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 {
		t.Fatalf("%d programs, want one for the end and one for the start", len(found))
	}
	for i, want := range []struct {
		program string
		offset  uint64
		tests   uint8
	}{{kernelProgRuleEndProbe, 2, 0}, {kernelProgRuleStartProbe, 1, 2}} {
		s := found[i]
		r := s.variant.special.rule
		if s.variant.program != want.program || s.offsets[0] != want.offset || r.Tests != want.tests || r.Staged != 0 || r.Message == noArg || r.Label != noArg || r.Serial != noArg || s.cookies[0] != 7 {
			t.Errorf("%d: %s at %d: %+v", i, s.variant.program, s.offsets, r)
		}
		if s.variant.terms.form != dtrace.TermsByNumber || !s.variant.terms.argsAreTerms {
			t.Errorf("%d: terms %+v", i, s.variant.terms)
		}
	}
	tests := found[1].variant.special.tests
	for i, arg := range []uint8{0, 1} { // sender and receiver
		if got := tests[i]; got.Arg != arg || got.Form != uint8(kernelTestFormTEST_TERM) || got.Op != uint8(dtrace.Unequal) || got.Number != 0 {
			t.Errorf("test %d: %+v", i, got)
		}
	}
}

// Instances from a send to message-queued end where the receiver fetches its messages. The address
// identifies each message, so no other event is needed.
func TestHopEndsAtFetch(t *testing.T) {
	target := standing(t)
	b, _ := dtrace.LookupBuiltin("hop")
	o := Outcome{Name: "hop", Rule: &b.Rule, DMax: int64(time.Second)}
	found, err := target.ruleSites(o, 7)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 {
		t.Fatalf("%d programs, want one for the fetch and one for the start", len(found))
	}
	for i, want := range []struct {
		program        string
		offset         uint64
		message, state uint8
	}{{kernelProgRuleFetchProbe, 9, 6, 7}, {kernelProgRuleStartProbe, 1, 6, noArg}} {
		s := found[i]
		r := s.variant.special.rule
		if s.variant.program != want.program || !slices.Equal(s.offsets, []uint64{want.offset}) || r.Message != want.message || r.State != want.state || r.Indirect != 0 || s.cookies[0] != 7 {
			t.Errorf("%d: %s at %d: %+v", i, s.variant.program, s.offsets, r)
		}
	}
	if state := found[0].variant.args.args[7]; state.Kind != uint8(kernelArgKindARG_REGISTER) || state.Size != 4 {
		t.Errorf("state %+v", state)
	}
}

// Rules from a send to message-queued are refused where no fetch is known, or where a fetch does not tell
// what they need.
func TestNoEndAtFetch(t *testing.T) {
	const same = "this VM reports message-queued and message-send at the same place, so no time passes between them"
	hop, _ := dtrace.LookupBuiltin("hop")
	conditional, last := hop.Rule, hop.Rule
	conditional.End = expression(t, "message-queued[receiver=\"<0.1.0>\"]")
	last.Pairing, last.Sync = dtrace.Last, nil
	unknown, nameless := standing(t), standing(t)
	unknown.Fetches = nil
	nameless.Messages = map[uint64]Message{2: nameless.Messages[2]}
	for what, test := range map[string]struct {
		target Target
		rule   dtrace.Rule
	}{
		"no fetch is known":          {unknown, hop.Rule},
		"sends without address":      {nameless, hop.Rule},
		"an end with a condition":    {standing(t), conditional},
		"instances without an order": {standing(t), last},
	} {
		if err := test.target.Sees(Outcome{Rule: &test.rule}); errorText(err) != same || !errors.Is(err, ErrNoProbe) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	if err := standing(t).Sees(Outcome{Rule: &hop.Rule}); err != nil {
		t.Error(err)
	}
}

// Ends that stand-in functions cannot distinguish do not count as orphans: another collection has
// ended.
func TestSharedEndsAreLoose(t *testing.T) {
	target := standing(t)
	for _, name := range []string{"gc", "gc-minor", "gc-major"} {
		b, _ := dtrace.LookupBuiltin(name)
		found, err := target.ruleSites(Outcome{Name: name, Rule: &b.Rule}, 0)
		if err != nil {
			t.Fatal(err)
		}
		ends := 0
		for _, s := range found {
			if s.variant.program == kernelProgRuleEndProbe {
				ends += len(s.offsets)
				if s.variant.special.rule.Loose != 1 || s.variant.special.rule.Amount != 1 {
					t.Errorf("%s: %+v", name, s.variant.special.rule)
				}
			}
		}
		if ends != 1 {
			t.Errorf("%s: %d places of ends, want one", name, ends)
		}
	}
}

func expression(t *testing.T, text string) dtrace.Expr {
	t.Helper()
	e, err := dtrace.ParseExpr(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Programs are attached once to a function that stands in for several details. Sends have the
// address of the message, and no event says that a message was fetched. Explained spans need the
// function that the application beamscope calls.
func TestDetailsOfStandIns(t *testing.T) {
	target := standing(t)
	if err := target.noSpans(); !errors.Is(err, ErrNoProbe) {
		t.Errorf("without a function for spans: %v", err)
	}
	if found, err := target.callSites(); len(found) > 0 || err != nil {
		t.Errorf("without a function for spans: %v, %v", found, err)
	}
	target.Probes = append(target.Probes, usdt.Probe{Name: dtrace.UserTrace, Sites: []usdt.Site{{Address: 9, Offset: 9, Function: "call"}}})
	found, err := target.callSites()
	if err != nil || len(found) != 1 || found[0].variant.program != kernelProgSpanCall || !found[0].variant.terms.argsAreTerms {
		t.Errorf("spans: %v, %v", found, err)
	}
	type at struct {
		offset  uint64
		returns bool
	}
	all := make(map[at]uint64)
	for _, d := range details() {
		found, err := new(Collector).detailSites(d, target)
		if err != nil && !errors.Is(err, ErrNoProbe) {
			t.Errorf("%s: %v", d.probe, err)
		}
		for _, s := range found {
			for i, offset := range s.offsets {
				place := at{offset, s.variant.returns}
				if _, twice := all[place]; twice {
					t.Errorf("%s: a second program at %d", d.probe, offset)
				}
				all[place] = s.cookies[i]
				if known := s.variant.args.args[argMessageAddress].Kind != uint8(kernelArgKindARG_UNKNOWN); known != (offset == 1 || offset == 2) {
					t.Errorf("%s: the address of a message: %v", d.probe, known)
				}
			}
		}
	}
	for place, want := range map[at]uint64{
		{1, false}: messageUnfetched,
		{2, false}: messageUnfetched | uint64(kernelLoggedLOG_RECEIVE),
		{5, false}: uint64(kernelLoggedLOG_GC_END),
		{6, true}:  uint64(kernelLoggedLOG_NIF_END),
	} {
		if got, ok := all[place]; got != want || !ok {
			t.Errorf("at %v: the cookie %#x, want %#x", place, got, want)
		}
	}
}

// The text of a function at a stand-in function is the same as at a probe.
func TestFunctionTexts(t *testing.T) {
	long := strings.Repeat("m", textMost)
	for _, test := range []struct {
		module, function string
		arity            uint64
		want             string
	}{
		{"lists", "seq", 2, "lists:seq/2"},
		{"Elixir.Shop", "go!", 0, "'Elixir.Shop':'go!'/0"},
		{"it's", "é", 255, `'it\'s':é/255`},
		{"a\x1b[2J", "f", 1, `'a\e[2J':f/1`},
		{long, "f", 1, long},
	} {
		if got := functionText(test.module, test.function, test.arity); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
