package scope_test

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/files/config"
)

var update = flag.Bool("update", false, "write the golden frames of this version")

// A frame is determined by the scope file and the batches so far, to the last bit. Each scope
// file in testdata/frames has a file of golden frames, with one line for each row, notice and
// firing. Long values, such as distribution functions, are replaced by a digest of all their
// bits. If there is a file NAME.next.yaml, it replaces NAME.yaml for some windows.
func TestGoldenFrames(t *testing.T) {
	files, err := filepath.Glob("testdata/frames/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scope files: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".yaml")
		if strings.HasSuffix(name, ".next") {
			continue
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			golden(t, name+".golden", framesOf(t, name))
		})
	}
}

// Triggers give the golden results for their settings: how a setting is written, and why it is
// rejected, in general or for outcomes of three kinds.
func TestGoldenSettings(t *testing.T) {
	settings := map[string][]string{
		"":           {"", "true", "false", "1", "0", "0.5", "-1", "1.5", "99999999999999999999", "5%", "100 %", "NaN", "yes", "10s", "-1s", "p50"},
		"load":       {"9007199254740991", "9007199254740992"},
		"loss":       {"9007199254740991", "9007199254740992"},
		"rate":       {"< 50", "<50", " < 0.5 ", "> 50", "50", "< 0", "<", "< 1e12", "< 1e13", "1e12", "1e13"},
		"silence":    {"1h", "1m30s", "1ns", "0s"},
		"failure":    {"0.05", "0.999", "1%", "101%"},
		"hazard":     {"0.05", "0.1", "0.2", "0.20001", "0.3", "0.5"},
		"nonsense":   {"1e-3"},
		"divergence": {"0.05", "0.1", "0.999"},
		"condition": {
			"n > 1", "n", "n +", "1 < 2", "1*s < 2*ms", "p98 > 1", "slack < 0.1", "divergence > 0.1", "calculated_p99 > n", "!(n > 1) and -n < +2",
			"n > 1 ? ok > 2 : failed > 3", "n / 0 > 1", "n % 0.0 > 1", "n / -0 > 1", "n / +0.0 > 1", "n / (0) > 1", "n / !0 > 1", "n / -n > 1", "n / -1 > 1", "slack < 0.1 && divergence > 0.1", "divergence > 0.1 && slack < 0.1", "n / us > 1", "n ** 2 ^ 3 >= 4",
			"n in [1, 2]", "any([1], # > 0)", "n matches 'a'", "let x = n; x > 1", "'a' == 'b'", "n == nil", "true", "rate != rate", "n ?? 1 > 0",
			strings.Repeat(" ", 4091) + "n > 1", strings.Repeat(" ", 4092) + "n > 1",
		},
	}
	qta, err := dq.NewQTA(0.2, dq.Step{T: ms, P: 0.7})
	if err != nil {
		t.Fatal(err)
	}
	loose, err := dq.NewQTA(1, dq.Step{T: ms, P: 0.9}, dq.Step{T: 2 * ms, P: 0.95})
	if err != nil {
		t.Fatal(err)
	}
	bare, required, easy := scope.OutcomeSystem{Spec: spec("a", 4)}, scope.OutcomeSystem{Spec: spec("a", 4), QTA: &qta}, scope.OutcomeSystem{Spec: spec("a", 4), QTA: &loose}
	var lines []string
	for _, kind := range append(scope.TriggerNames(), "nonsense") {
		for _, setting := range slices.Concat(settings[""], settings[kind]) {
			place := strings.ReplaceAll(fmt.Sprintf("%s %q", kind, setting), strings.Repeat(" ", 4000), "…")
			trigger, err := scope.ParseTrigger(kind, setting)
			switch {
			case err != nil:
				lines = append(lines, line(place, "refused", err))
				continue
			case trigger == nil:
				lines = append(lines, line(place, "none", true))
				continue
			}
			possible := func(p *scope.OutcomeSystem, calculated bool) string {
				if err := trigger.Possible(p, calculated); err != nil {
					return err.Error()
				}
				return ""
			}
			lines = append(lines, line(place, "kind", trigger.Kind(), "setting", strings.TrimSpace(trigger.Setting()), "patience", trigger.Patience(),
				"refused", possible(&bare, false), "refused if calculated", possible(&bare, true),
				"refused with a QTA", possible(&required, false), "refused with an easy QTA", possible(&easy, true)))
		}
	}
	golden(t, "testdata/settings.golden", lines)
}

// golden compares lines with those of a file, and reports the figures that differ in each line.
func golden(t *testing.T, file string, got []string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	differ := 0
	for i := range max(len(want), len(got)) {
		var w, g string
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w == g {
			continue
		}
		if differ++; differ > 10 {
			t.Fatal("further lines differ")
		}
		t.Errorf("%s:%d\nwant %s\n got %s", file, i+1, differing(w, g), differing(g, w))
	}
}

// differing returns the place that a line describes, and those of its figures that another line
// does not have.
func differing(line, other string) string {
	const separator = " | "
	figures, others := strings.Split(line, separator), strings.Split(other, separator)
	kept := figures[:1:1]
	for _, f := range figures[1:] {
		if !slices.Contains(others, f) {
			kept = append(kept, f)
		}
	}
	return strings.Join(kept, separator)
}

func systemOf(t *testing.T, file string) *scope.System {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(file, data)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.System()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// framesOf returns the lines about the frames of a scope file.
func framesOf(t *testing.T, name string) []string {
	const windows, change, back = 44, 30, 37
	first := systemOf(t, name+".yaml")
	engine, err := scope.NewEngine(first)
	if err != nil {
		t.Fatal(err)
	}
	configure := func(s *scope.System) {
		if err := engine.Configure(s); err != nil {
			t.Fatal(err)
		}
	}
	g := &generator{random: rand.NewPCG(7, 11), wall: noon}
	var lines, kept []string
	var clones []*scope.Frame
	for n := range windows {
		if _, err := os.Stat(name + ".next.yaml"); !errors.Is(err, fs.ErrNotExist) {
			switch n {
			case change:
				configure(systemOf(t, name+".next.yaml"))
			case back:
				configure(first)
			}
		}
		batch := g.window(n, engine.System())
		frame, err := engine.Step(&batch)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, frameLines(frame)...)
		clones = append(clones, frame.Clone())
	}
	for _, frame := range clones {
		kept = append(kept, frameLines(frame)...)
	}
	if diff := cmp.Diff(lines, kept); diff != "" {
		t.Errorf("clones are not what the frames were, -frames +clones:\n%s", diff)
	}
	return lines
}

// A generator makes batches that are the same in each run.
type generator struct {
	random *rand.PCG
	from   int64
	wall   time.Time
}

// below draws a number below n.
func (g *generator) below(n uint64) uint64 { return g.random.Uint64() % n }

// A phase is the kind of a window.
type phase int

const (
	fine      phase = iota
	crowded         // more instances
	few             // hardly any instances
	silent          // no instance, but starts
	dead            // nothing at all
	slow            // long delays, timeouts
	failed          // failures
	lossy           // losses of all kinds, late and orphaned ends
	missed          // not observed
	absent          // the source has no counts for some outcomes
	elsewhere       // other VMs
	changed         // different causes of delays
)

// phases returns the kinds of successive windows. After the last one the first comes again.
func phases() []phase {
	return slices.Concat(
		[]phase{missed}, slices.Repeat([]phase{fine}, 6), []phase{lossy, crowded, fine, few, few},
		slices.Repeat([]phase{silent}, 2), slices.Repeat([]phase{dead}, 3), slices.Repeat([]phase{slow}, 4), []phase{missed, fine},
		slices.Repeat([]phase{failed}, 2), []phase{absent}, slices.Repeat([]phase{elsewhere}, 2), slices.Repeat([]phase{changed}, 6), []phase{crowded, lossy, lossy},
	)
}

// window returns the batch of a window.
func (g *generator) window(n int, s *scope.System) outcome.Batch {
	all := phases()
	is := all[n%len(all)]
	if n == 20 {
		g.from += int64(3 * s.Window) // a gap, for example where a recording was cut
	}
	b := outcome.Batch{Window: outcome.Window{From: g.from, To: g.from + int64(s.Window)}}
	g.from, g.wall = b.Window.To, g.wall.Add(s.Window)
	b.Time = g.wall
	b.Cost = outcome.Cost{Events: g.below(1000), PerEvent: time.Duration(g.below(3000)), Collector: ms}
	if is == lossy {
		b.Rejected = outcome.Rejected{Count: g.below(5), Last: "{a,1}: not a span"}
	}
	for i := range s.Outcomes {
		spec := s.Outcomes[i].Spec
		for _, vm := range g.vms(i, is) {
			if is == absent && i%2 == 1 {
				continue
			}
			c := g.counts(spec, is)
			c.VM = vm
			b.Counts = append(b.Counts, c)
			if !c.Unobserved {
				b.Instances = append(b.Instances, g.instances(spec, vm, c, is)...)
			}
		}
	}
	b.Instances = append(b.Instances, outcome.Instance{Outcome: "nobody", VM: beam, ID: 1})
	return b
}

// vms returns the VMs of an outcome in a window: usually one, for some outcomes two, and others
// at times.
func (g *generator) vms(outcomes int, is phase) []outcome.VM {
	second, third := outcome.VM{PID: 8, Node: "b@c"}, outcome.VM{PID: 9}
	switch {
	case is == elsewhere && outcomes%3 == 2:
		return []outcome.VM{beam, second, third}
	case is == elsewhere:
		return []outcome.VM{second, third}
	case outcomes%3 == 1:
		return []outcome.VM{second}
	case outcomes%3 == 2:
		return []outcome.VM{beam, second}
	}
	return []outcome.VM{beam}
}

func (g *generator) counts(spec outcome.Spec, is phase) outcome.Counts {
	c := outcome.Counts{Outcome: spec.Name, Bins: make([]uint64, spec.Bins), Unobserved: is == missed}
	instances := map[phase]uint64{missed: 0, silent: 0, dead: 0, few: 1 + g.below(4), crowded: 180 + g.below(40)}
	n, ok := instances[is]
	if !ok {
		n = 25 + g.below(80)
	}
	if is == lossy && g.below(2) == 0 {
		c.Loss = outcome.Loss{
			Unreadable: g.below(2), NoRoom: g.below(2), Missed: g.below(2), Cut: g.below(2),
			Exits: g.below(2), Crowded: g.below(2), Rejected: g.below(2), Unpaired: g.below(2),
		}
		c.Orphans, c.Lates, c.Dropped, c.Inferred = g.below(9), g.below(3), g.below(9), g.below(9)
	}
	bad := map[phase]uint64{failed: 2, slow: 4}[is]
	for range n {
		switch g.below(10) {
		case 0, 1:
			if bad == 2 || g.below(8) == 0 {
				c.Failures++
				continue
			}
		case 2, 3:
			if bad == 4 || g.below(9) == 0 {
				c.Timeouts++
				continue
			}
		}
		at := min(g.below(uint64(spec.Bins)), g.below(uint64(spec.Bins)))
		if is == slow {
			at = uint64(spec.Bins) - 1 - at
		}
		c.Bins[at]++
		c.Successes++
		c.Amount += at
	}
	c.Ends = c.Instances()
	c.Starts = c.Ends + map[phase]uint64{silent: 3}[is]
	for k := range min(n, 3) {
		c.Groups = append(c.Groups, outcome.Group{Key: fmt.Sprint("<0.", k, ".0>"), Process: trace.PID(k), Successes: k, Total: time.Duration(k) * ms})
	}
	return c
}

// instances returns some instances with traces.
func (g *generator) instances(spec outcome.Spec, vm outcome.VM, c outcome.Counts, is phase) []outcome.Instance {
	var all []outcome.Instance
	for id := range min(c.Instances(), 4) {
		i := outcome.Instance{
			Outcome: spec.Name, VM: vm, ID: id + 1, Status: outcome.Status(g.below(3)), Process: trace.PID(g.below(3)),
			Start: g.from - int64(ms), End: g.from - int64(g.below(uint64(ms))),
		}
		if spec.Explain && id != 1 {
			wait := time.Duration(g.below(20)) * ms
			if is == changed {
				wait += 70 * ms
			}
			with := explainedBy(spec.Name, id,
				spell{trace.Running, 1, "", 10*ms + time.Duration(g.below(99)), trace.Exact, ""},
				spell{trace.Mailbox, 5, []string{"", "queue"}[g.below(2)], wait + ms, trace.Mark(g.below(2)), ""},
				spell{trace.GC, 1, "", time.Duration(1+g.below(9)) * ms, trace.Exact, ""},
				spell{trace.Unexplained, trace.PID(6 + g.below(30)), "", time.Duration(1+g.below(9)) * ms, trace.Ambiguous, []string{"nothing is known", "too late"}[g.below(2)]},
			)
			i.Trace, i.End = with.Trace, i.Start+with.End
		}
		all = append(all, i)
	}
	return all
}

// frameLines returns the lines about a frame.
func frameLines(f *scope.Frame) []string {
	place := fmt.Sprintf("frame %d", f.Number)
	lines := []string{line(place, "window", f.Window, "time", f.Time.Format(time.RFC3339Nano), "attaching", f.Attaching, "rejected", f.Rejected, "cost", f.Cost)}
	for _, n := range f.Notices {
		lines = append(lines, place+" notice | "+n.Text)
	}
	for i := range f.Outcomes {
		lines = append(lines, rowLine(place, &f.Outcomes[i]))
	}
	for _, x := range f.Fired {
		lines = append(lines, line(place+" fired", "trigger", x.Trigger, "setting", x.Setting, "probe", x.Outcome, "vm", x.VM, "cause", x.Cause, "explanation", x.Explanation))
	}
	return lines
}

func rowLine(place string, p *scope.Outcome) string {
	place = fmt.Sprintf("%s %s of %v", place, p.Name, p.VM)
	least, lost, ok := p.LeastSuccess()
	input := struct {
		Window outcome.Window
		Spec   outcome.Spec
		Counts outcome.Counts
	}{p.Window, p.Spec, p.Counts}
	figures := []any{
		"input", digest(input),
		"n", p.Counts.Instances(), "rate", p.Rate(),
		"fitted", p.Fitted, "seen", p.Seen, "silent", p.Silent, "insufficient", p.Insufficient, "active", strings.Join(p.Active, " "),
		"success", fmt.Sprint(least, lost, ok), "observed", observed(p.Observed),
		"calculated", calculated(p.Calculated), "calculated from", p.CalculatedFrom, "calculated insufficient", p.CalculatedInsufficient,
		"judgement", digest(p.Judgement), "calculated judgement", digest(p.CalculatedJudgement),
	}
	for what, m := range map[string]*scope.Mean{"mean": &p.Mean, "calculated mean": &p.CalculatedMean} {
		if m.Windows > 0 { // otherwise the band was not written
			at, within := m.Quantile(0.5)
			figures = append(figures, what, fmt.Sprint(m.Windows, " of ", m.Width, ": ", digest(m.Band), " p50 ", delay(at), " within ", delay(within.Lo), "–", delay(within.Hi)))
		}
	}
	if p.Divergence != nil {
		figures = append(figures, "divergence", fmt.Sprint(p.DivergenceWindows, digest(p.Divergence)))
	}
	if len(p.Instances) > 0 {
		var ids []string
		for _, i := range p.Instances {
			ids = append(ids, fmt.Sprint(i.ID, i.Status))
		}
		figures = append(figures, "instances", strings.Join(ids, " "))
	}
	if x := p.Explained; x != nil {
		figures = append(figures, "explained", x.Sentence(), "shares", digest(x.Shares), "others", fmt.Sprint(x.Instances, x.Total, x.Others, x.Causes, x.Quiet, x.UsualOthers()))
	}
	return line(place, figures...)
}

// line returns a line with a place and figures, which are given as name and value in turn. It
// sorts the figures by name and leaves out zeros.
func line(place string, figures ...any) string {
	var parts []string
	for i := 0; i < len(figures); i += 2 {
		if v := figures[i+1]; !reflect.ValueOf(v).IsZero() {
			parts = append(parts, fmt.Sprintf("%s: %v", figures[i], v))
		}
	}
	slices.Sort(parts)
	return strings.Join(append([]string{place}, parts...), " | ")
}

func delay(d time.Duration) string {
	if d == dq.Unreached {
		return "∞"
	}
	return d.String()
}

func observed(o *dq.Observed) string {
	if o.Empty() {
		return ""
	}
	return digest(o.AppendECDF(nil)) + digest(o.AppendPDF(nil))
}

func calculated(d *dq.DeltaQ) string {
	if d.Empty() {
		return ""
	}
	lower, upper := d.AppendBounds(nil, nil)
	moments, _ := d.Moments()
	return fmt.Sprint(d.Width(), digest(lower), digest(upper), digest(moments))
}

// digest returns a few digits that depend on all bits of a value.
func digest(v any) string {
	if x := reflect.ValueOf(v); x.Kind() == reflect.Pointer && x.IsNil() {
		return ""
	}
	h := fnv.New32a()
	write(h, reflect.ValueOf(v))
	return hex.EncodeToString(h.Sum(nil))
}

// write writes a value with the names of its fields, at any depth. It leaves out fields that are
// zero.
func write(w io.Writer, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		write(w, v.Elem()) // nil values are left out
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				fmt.Fprint(w, v.Type().Field(i).Name, ":")
				write(w, v.Field(i))
				fmt.Fprint(w, ";")
			}
		}
	case reflect.Slice:
		fmt.Fprint(w, v.Len(), "[")
		for i := range v.Len() {
			write(w, v.Index(i))
			fmt.Fprint(w, ",")
		}
	default:
		fmt.Fprintf(w, "%v", v)
	}
}
