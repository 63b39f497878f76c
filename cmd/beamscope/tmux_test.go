package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/internal/ui/dashboard"
)

// A pane is a terminal of 120×40 with a shell in it.
type pane struct {
	t      *testing.T
	socket string
	dir    string // working directory of the shell
}

const tmuxConfig = `
set -g default-terminal xterm-256color
set -g status off
set -s escape-time 0
`

// newPane opens a terminal that closes at the end of the test.
func newPane(t *testing.T) *pane {
	t.Helper()
	vmtest.NeedProgram(t, "tmux")
	run, err := os.MkdirTemp("", "beamscope") // names of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	p := &pane{t: t, socket: filepath.Join(run, "tmux"), dir: t.TempDir()}
	settings := filepath.Join(run, "tmux.conf")
	if err := os.WriteFile(settings, []byte(tmuxConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	p.tmux("-f", settings, "new-session", "-d", "-x", "120", "-y", "40", "-c", p.dir, "env -u ENV -u NO_COLOR -u COLORTERM PS1='> ' sh")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("on the terminal:\n%s", p.text())
		}
		p.tmux("kill-server")
	})
	p.await(">")
	return p
}

// tmux runs a tmux command for the terminal, and returns its output.
func (p *pane) tmux(args ...string) string {
	p.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", p.socket}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

func (p *pane) text() string { return p.tmux("capture-pane", "-p") }

// keys presses keys with their names in tmux.
func (p *pane) keys(names ...string) { p.tmux(append([]string{"send-keys"}, names...)...) }

// write presses the keys of a text.
func (p *pane) write(text string) {
	if before, ok := strings.CutSuffix(text, ";"); ok {
		text = before + `\;` // otherwise it would end the tmux command
	}
	p.tmux("send-keys", "-l", "--", text)
}

// of returns the terminal for a part of the test.
func (p *pane) of(t *testing.T) *pane { return &pane{t, p.socket, p.dir} }

// await waits until all of the texts are on the terminal.
func (p *pane) await(texts ...string) {
	p.t.Helper()
	await(p.t, fmt.Sprintf("%q on the terminal", texts), func() bool {
		now := p.text()
		for _, text := range texts {
			if !strings.Contains(now, text) {
				return false
			}
		}
		return true
	})
}

// run makes the shell run a command. ends waits for its end.
func (p *pane) run(command string) {
	p.write(command + "; echo status $?")
	p.keys("Enter")
}

// ends waits until the command has ended with a status.
func (p *pane) ends(status int) {
	p.t.Helper()
	p.await(fmt.Sprintf("status %d\n", status))
}

// A terminalState is the part of a terminal's state that a program may change.
type terminalState struct{ modes, settings string }

func (p *pane) state() terminalState {
	p.t.Helper()
	tty := strings.TrimSpace(p.tmux("display-message", "-p", "#{pane_tty}"))
	settings, err := exec.Command("stty", "-F", tty, "-a").Output()
	if err != nil {
		p.t.Fatal(err)
	}
	var modes []string
	for _, mode := range []string{"alternate_on", "cursor_flag", "mouse_any_flag", "keypad_flag", "keypad_cursor_flag", "wrap_flag", "insert_flag", "origin_flag"} {
		modes = append(modes, mode+"=#{"+mode+"}")
	}
	return terminalState{p.tmux("display-message", "-p", strings.Join(modes, " ")), string(settings)}
}

// restored reports if the terminal differs from its earlier state.
func (p *pane) restored(before terminalState) {
	p.t.Helper()
	if after := p.state(); after != before {
		p.t.Errorf("the terminal is\n%s%s\nand was\n%s%s", after.modes, after.settings, before.modes, before.settings)
	}
}

// over replaces the text in a field.
func (p *pane) over(text string) {
	p.keys("C-u")
	p.write(text)
	p.keys("Enter")
}

var selectedParameter = regexp.MustCompile(`║▸( ?\S+)`)

// parameter selects a row with this text in the tab of parameters.
func (p *pane) parameter(name string) {
	p.t.Helper()
	selected := func() string {
		if m := selectedParameter.FindStringSubmatch(p.text()); m != nil {
			return m[1]
		}
		return ""
	}
	for range 20 {
		was := selected()
		if was == name {
			return
		}
		p.keys("Down")
		await(p.t, "another parameter than "+was, func() bool { return selected() != was })
	}
	p.t.Fatalf("no parameter %s", name)
}

// terminalScope is the scope file of the test.
const terminalScope = `# the scope file of the test
window: 200ms
samples: 10
diagram: |
  probe = worker_1 -> worker_2;
outcomes:
  worker_1: {span: worker_1, dmax: 25ms, bins: 100}
  worker_2: {span: worker_2, dmax: 25ms, bins: 100}
  probe: {span: probe, dmax: 50ms, bins: 200}
snapshots: {dir: kept, before: 5, after: 600ms}
`

// Rates in messages a second. Even a busy machine can handle the first one, and no machine the
// second one.
const calmRate, overloadRate = 100, 4000

// startQueues starts a VM with a system whose options can change.
func startQueues(t *testing.T) *erlang.VM {
	t.Helper()
	vmtest.NeedEBPF(t)
	return vmtest.Start(t, erlang.Options{Main: []string{"mm1k", fmt.Sprint("rate=", calmRate), "k=10", "loops=0", "delay=1"}})
}

func setRate(t *testing.T, vm *erlang.VM, rate int) {
	t.Helper()
	if err := vm.Set(t.Context(), "rate", strconv.Itoa(rate)); err != nil {
		t.Fatal(err)
	}
}

// place writes a file into the folder of the shell.
func (p *pane) place(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// A user at the terminal looks at everything, changes the diagram, dMax, a QTA and triggers,
// waits for a trigger to fire, looks at its snapshot, exports and saves.
func TestTerminal(t *testing.T) {
	vm := startQueues(t)
	p := newPane(t)
	p.place("scope.yaml", terminalScope)
	before := p.state()
	p.run(fmt.Sprintf("beamscope run -c scope.yaml --pid %d", vm.PID()))
	p.await("● live", "1 probe · n=", "2 worker_1 · n=", "3 worker_2 · n=")

	p.keys("o")
	p.await("per s", "rate, window by window")
	p.keys("o", "?")
	p.await("show all keys")
	p.keys("Escape")
	p.calmly()
	p.changeDiagram()
	p.keys("p")
	p.await("polling window 200ms", "3 of 9")
	p.changeParameters()
	p.setTriggers()
	p.keys("c")
	p.await("╔ connection", fmt.Sprintf("║pid %d", vm.PID()), "since", "user_trace-n")

	p.keys("t")
	setRate(t, vm, overloadRate)
	p.await("▶ going on")
	setRate(t, vm, calmRate)
	p.keys("End")
	p.await(" windows before, ") // in the snapshot
	p.keys("Enter")
	p.await("❚❚ snapshot", "│ fired │", "worst instances")
	p.keys(",")
	p.await("│ 1 before │")
	p.keys(".", ".")
	p.await("│ 1 after │")
	for _, name := range []string{"picture.svg", "figures.csv"} {
		p.keys("x")
		p.await("export as")
		p.over(name)
		p.await("written: " + name)
	}
	p.keys("Escape")
	p.await("Enter alone") // the sidebar is closed
	p.keys("Escape")
	p.await("back to what is live")

	p.keys("w")
	p.await("save as")
	p.over("saved.yaml")
	p.await("saved: beamscope run -c saved.yaml")
	p.keys("q")
	p.ends(0)
	p.await("> beamscope run -c scope.yaml") // the earlier output of the shell
	p.restored(before)

	p.wantSaved()
	p.wantExported()
	p.run(fmt.Sprintf("beamscope run -c saved.yaml --pid %d --headless --for 1s > frames.txt", vm.PID()))
	p.ends(0)
	p.run("clear; beamscope snapshots list -c saved.yaml")
	p.await("KiB", "probe ", "+1+")
}

// calmly shows some windows, and fails if the screen is blanked between them.
func (p *pane) calmly() {
	p.t.Helper()
	const windows = 6
	stream := filepath.Join(p.dir, "stream")
	p.tmux("pipe-pane", "-o", "cat > "+stream)
	clock := regexp.MustCompile(`● live │ (\S+) │`)
	seen := make(map[string]bool)
	await(p.t, "more windows", func() bool {
		if m := clock.FindStringSubmatch(p.text()); m != nil {
			seen[m[1]] = true
		}
		return len(seen) > windows
	})
	p.tmux("pipe-pane")
	var sent []byte
	await(p.t, "what was sent", func() bool {
		sent, _ = os.ReadFile(stream)
		return bytes.Contains(sent, []byte("\x1b["))
	})
	if cleared := regexp.MustCompile(`\x1b\[[23]?J|\x1bc`).Find(sent); cleared != nil {
		p.t.Errorf("the screen is blanked between windows: %q", cleared)
	}
}

// changeDiagram enters a wrong diagram, which must be rejected, and then applies another one.
func (p *pane) changeDiagram() {
	p.t.Helper()
	p.keys("s")
	p.await("probe = -->(worker_1)-->(worker_2)--")
	p.keys("Enter", "C-l")
	p.write("probe = worker_2 -> ;")
	p.await(`✗ 1:21 unexpected ";"`, "1✗ probe = worker_2", "edited, not applied")
	p.keys("C-s")
	p.await("not applied: the diagram is wrong", "probe = -->(worker_1)-->(worker_2)--")
	p.keys("C-l")
	p.write("probe = worker_2 -> worker_1;")
	p.await("✓ no error")
	p.keys("C-s")
	p.await("the diagram holds from the next window on", "This is in force")
	p.await("probe = -->(worker_2)-->(worker_1)--")
	p.keys("Escape")
	p.await("? help") // no longer in the text
}

// changeParameters sets dMax and a QTA of the outcome probe.
func (p *pane) changeParameters() {
	p.t.Helper()
	p.keys("m")
	p.await("◂ probe ▸")
	p.parameter(" dMax")
	p.keys("Enter")
	p.over("40ms")
	p.await("40ms * in force 50ms")
	p.parameter("QTA")
	p.keys("Right")
	p.await("◂ on ▸")
	p.parameter(" p50")
	p.keys("Enter")
	p.over("35ms")
	p.parameter(" failure")
	p.keys("Enter")
	p.over("0.5")
	p.await("edited: probe. a applies")
	p.keys("a")
	p.await("from the next window on the new parameters hold", "All of this is in force", "dMax 40ms")
}

// setTriggers sets two triggers of the outcome probe.
func (p *pane) setTriggers() {
	p.t.Helper()
	p.keys("t")
	p.await("outcome probe", "← 3 of 3 →") // the whole system comes first
	p.keys("Down", "Down", "Down", "Enter")
	p.await("failure of probe (Enter, or Esc)")
	p.write("2")
	p.keys("Enter")
	p.await(`"2": write the share`)
	p.over("0.5")
	p.await("failure    0.5")
	p.keys("Down", "Down", "Down", "Down", "Space")
	p.await("qta        true")
}

// wantSaved checks the saved scope file.
func (p *pane) wantSaved() {
	p.t.Helper()
	path := filepath.Join(p.dir, "saved.yaml")
	c, err := config.Load(path)
	if err != nil {
		p.t.Fatal(err)
	}
	probe := c.Outcome("probe")
	if got := probe.Scale.DMax; got.String() != "40ms" {
		p.t.Errorf("dMax is %v, want 40ms", got)
	}
	if probe.QTA == nil || probe.QTA.Failure != 0.5 {
		p.t.Errorf("the QTA is %+v", probe.QTA)
	}
	if len(probe.Triggers) != 2 || !strings.Contains(c.Diagram, "worker_2 -> worker_1") {
		p.t.Errorf("triggers %v, diagram %q", probe.Triggers, c.Diagram)
	}
	again := filepath.Join(p.dir, "again.yaml")
	if err := c.Save(again); err != nil {
		p.t.Fatal(err)
	}
	// How events are seen is known only while they are observed.
	first := regexp.MustCompile(`(?m)^ *# seen: .*\n`).ReplaceAllString(p.read("saved.yaml"), "")
	if second := p.read("again.yaml"); first != second {
		p.t.Errorf("saved again it is\n%s\nand was\n%s", second, first)
	}
}

func (p *pane) read(name string) string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// wantExported checks the exported files.
func (p *pane) wantExported() {
	p.t.Helper()
	d := xml.NewDecoder(strings.NewReader(p.read("picture.svg")))
	elements := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.t.Fatal(err)
		}
		if _, ok := token.(xml.StartElement); ok {
			elements++
		}
	}
	rows, err := csv.NewReader(strings.NewReader(p.read("figures.csv"))).ReadAll()
	if err != nil || len(rows) < 100 || elements < 10 {
		p.t.Errorf("%d rows, %v; %d elements of SVG", len(rows), err, elements)
	}
}

// Without a scope file, spans appear automatically. The marked ones are saved as a scope file,
// which can be used.
func TestTerminalDiscovery(t *testing.T) {
	vm := startQueues(t)
	p := newPane(t)
	p.run(fmt.Sprintf("beamscope run --pid %d", vm.PID()))
	p.await("● live", " probe  ", " worker_1  ", " worker_2  ", " gc  ") // rows of the table
	p.keys("Space", "Down", "Space", "w")
	p.await("✓", "save 2 marked as")
	p.over("found.yaml")
	p.await("saved: beamscope run -c found.yaml")
	p.keys("q")
	p.ends(0)
	c, err := config.Load(filepath.Join(p.dir, "found.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Outcomes) != 2 {
		t.Errorf("outcomes %v, want the 2 that were marked", c.Outcomes)
	}
	for _, o := range c.Outcomes {
		if !o.OfSpans() {
			t.Errorf("%s is none of the spans, which come first", o.Name)
		}
	}
	p.run(fmt.Sprintf("clear; beamscope run -c found.yaml --pid %d", vm.PID()))
	p.await("● live", "1 "+c.Outcomes[0].Name, "2 "+c.Outcomes[1].Name+" · n=") // the first window may have a single span
	p.keys("C-c")
	p.ends(0)
}

// The live table can be sorted, filtered and frozen. When the VM ends, the table stays.
// Afterwards the terminal is restored.
func TestTerminalTop(t *testing.T) {
	vm := startQueues(t)
	p := newPane(t)
	before := p.state()
	p.run(fmt.Sprintf("clear; beamscope top --pid %d --rate 1000000000", vm.PID()))
	p.await("● live", "by pid", "cpu%▼", "everything", "<0.")
	p.keys("9")
	p.await("wait p99▼")
	p.keys("/")
	p.write("nobody")
	p.await("0 of ", `rows with "nobody"`)
	p.keys("Escape")
	p.await("? help", " rows │") // without a filter; Escape and f in quick succession would be a different key
	p.keys("f")
	p.await("❚❚ frozen")
	p.keys("f", "g")
	p.await("● live", "by mfa")
	if err := vm.Stop(); err != nil {
		t.Fatal(err)
	}
	p.await("■ ended", "has exited. q quits", "everything")
	p.keys("q")
	p.ends(0)
	p.restored(before)
	p.run(fmt.Sprintf("clear; TERM=nonsense beamscope top --pid %d", startQueues(t).PID()))
	p.ends(1)
	p.await("set TERM=xterm-256color, or use --for")
}

// The program restores the terminal however it ends.
func TestTerminalRestored(t *testing.T) {
	p := newPane(t)
	before := p.state()
	t.Run("panic", func(t *testing.T) {
		p := p.of(t)
		p.run("panicking")
		p.ends(2)
		p.await("panic: out of order")
		p.restored(before)
	})
	data, err := demoFiles.ReadFile("mm1k.bsr")
	if err != nil {
		t.Fatal(err)
	}
	p.place("mm1k.bsr", string(data))
	for _, name := range []string{"nonsense", ""} {
		t.Run("TERM="+name, func(t *testing.T) {
			p := p.of(t)
			p.run(fmt.Sprintf("clear; TERM=%s beamscope replay mm1k.bsr", name))
			p.ends(1)
			p.await("set TERM=xterm-256color, or use --headless")
			p.restored(before)
		})
	}
	vm := startQueues(t)
	p.place("scope.yaml", terminalScope)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		t.Run(signal.String(), func(t *testing.T) {
			p := p.of(t)
			p.run(fmt.Sprintf("clear; sh -c 'echo $$ > pid; exec beamscope run -c scope.yaml --pid %d'", vm.PID()))
			p.await("● live", "1 probe · n=")
			pid, err := strconv.Atoi(strings.TrimSpace(p.read("pid")))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, signal); err != nil {
				t.Fatal(err)
			}
			p.ends(0)
			p.restored(before)
		})
	}
	t.Run("death of the VM", func(t *testing.T) {
		p := p.of(t)
		p.run(fmt.Sprintf("clear; beamscope run -c scope.yaml --pid %d", vm.PID()))
		p.await("● live", "1 probe · n=")
		if err := vm.Stop(); err != nil {
			t.Log(err)
		}
		p.await("■ ended", fmt.Sprintf("the end: pid %d exited", vm.PID()), "1 probe") // the data stays
		p.keys("q")
		p.ends(0)
		p.restored(before)
	})
}

// panicking is a program with a dashboard whose work panics while it is shown.
func panicking() {
	d := dashboard.New(dashboard.Options{Title: "panicking"})
	_ = d.Run(context.Background(), nowhere{}, func(context.Context) error { panic("out of order") })
}

// nowhere is a control without a session.
type nowhere struct{}

func (nowhere) Config() config.Config                                         { return config.Default() }
func (nowhere) ApplyFrom(context.Context, config.Config, config.Config) error { return nil }

// The demonstrations have a key that causes a fault.
func TestTerminalDemo(t *testing.T) {
	vmtest.NeedEBPF(t)
	otp := vmtest.OTP(t)
	for _, name := range []string{"ftf", "atf"} {
		t.Run(name, func(t *testing.T) {
			system, err := demoSystemNamed(name)
			if err != nil {
				t.Fatal(err)
			}
			p := newPane(t)
			p.run(fmt.Sprintf("BEAMSCOPE_OTP=%s XDG_CACHE_HOME=$PWD beamscope demo %s", otp.Dir, name))
			p.await("● demo "+name, system.intro(), "1 probe · n=")
			p.keys("b")
			p.await(system.worst().watch + "; b ends it")
			p.keys("b")
			p.await("back to normal")
			p.keys("q")
			p.ends(0)
		})
	}
}
