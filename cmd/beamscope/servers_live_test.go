package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A debianServer is a server of Debian that runs on Debian's own Erlang VM, in a root file system
// of its own: see scripts/stock-server.sh.
type debianServer struct {
	t       *testing.T
	name    string
	release int

	busy    string // expression: clients use the server
	process string // name of processes that work for clients
	waits   string // regular expression: what spans wait for
	span    string // name of spans that `run --explain` explains
	slow    string // name of the process that has most of their time; "" if it is the span's own

	clients []*exec.Cmd // in the background
}

func debianServers() []debianServer {
	return []debianServer{
		{name: "rabbitmq", busy: "length(rabbit_channel:list()) >= 8", process: "rabbit_channel:init/1", waits: `waiting in the mailbox of <[\d.]+> \(slow_consumer\)`, span: "list"},
		{name: "ejabberd", busy: "ejabberd_sm:connected_users_number() >= 8", process: "xmpp_stream_in:init/1", waits: `(waiting for|mailbox of) <[\d.]+> \(message_filter\)`, span: "delivery", slow: "message_filter"},
	}
}

// command returns a command of the script.
func (s debianServer) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "../../scripts/stock-server.sh", append([]string{strconv.Itoa(s.release), s.name}, args...)...)
	cmd.Env = append(cmd.Environ(), "INSTANCE=97")
	return cmd
}

// run runs a command of the script, and returns its output.
func (s debianServer) run(args ...string) string {
	s.t.Helper()
	cmd := s.command(s.t.Context(), args...)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s%s", args[0], err, out, &log)
	}
	return strings.TrimSpace(string(out))
}

// background starts a command of the script that runs until the server stops.
func (s *debianServer) background(args ...string) {
	s.t.Helper()
	cmd := s.command(context.Background(), args...)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.clients = append(s.clients, cmd)
}

// stop stops the server, and waits until its clients have ended because of that.
func (s *debianServer) stop() {
	if out, err := s.command(context.Background(), "stop").CombinedOutput(); err != nil {
		s.t.Errorf("%v: %s", err, out)
	}
	for _, client := range s.clients {
		kill := time.AfterFunc(time.Minute, func() { _ = client.Process.Kill() })
		if err := client.Wait(); !kill.Stop() {
			s.t.Errorf("%v goes on without its server: %v", client, err)
		}
	}
}

// beamscope runs a command of beamscope, and returns its standard output.
func (s debianServer) beamscope(args ...string) string {
	s.t.Helper()
	var log bytes.Buffer
	cmd := exec.CommandContext(s.t.Context(), "beamscope", args...)
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("beamscope %s: %v\n%s%s", args[0], err, out, &log)
	}
	return string(out)
}

// RabbitMQ and ejabberd run as Debian ships them, on Debian's own VM, as users other than root and
// in a root file system of their own. beamscope names their processes as the VM does, counts as
// many garbage collections as the VM, and explains spans in their running VMs, by `trace` and by `run --explain`.
func TestServersOfDebian(t *testing.T) {
	vmtest.NeedEBPF(t)
	for _, release := range vmtest.StockReleases() {
		for _, server := range debianServers() {
			server.release = release
			t.Run(fmt.Sprintf("%s on OTP %d", server.name, release), func(t *testing.T) {
				t.Parallel()
				server.t = t
				server.observe()
			})
		}
	}
}

func (s *debianServer) observe() {
	t := s.t
	if out, err := exec.CommandContext(t.Context(), "../../scripts/stock-server.sh", strconv.Itoa(s.release), "root").CombinedOutput(); err != nil {
		vmtest.Missing(t, fmt.Errorf("%w: %s", err, out))
	}
	s.run("start")
	t.Cleanup(s.stop)
	pid := s.run("pid")
	s.run("library")
	s.background("load", "300s", "200") // until the server stops
	await(t, "that the server is busy", func() bool { return s.run("eval", s.busy) == "true" })
	if found := s.beamscope("doctor", "--pid", pid); !strings.Contains(strings.Join(strings.Fields(found), " "), "Slow spans can be explained") {
		t.Errorf("Debian has another build of OTP %d now: compare its functions with those in internal/beam/standins/places.go, and add it\n%s", s.release, found)
	}
	s.figures(pid)
	s.background("spans", "240") // until the server stops
	if explained := s.beamscope("trace", "--pid", pid, "--for", "15s", "-n", "16"); !regexp.MustCompile(s.waits).MatchString(explained) {
		t.Errorf("no span has %q:\n%s", s.waits, explained)
	}
	if s.name == "rabbitmq" {
		s.documentedCommands()
	}
	s.explained(pid)
}

// libraryFolder is where the command library of the script puts the application.
const libraryFolder = "/tmp/beamscope/ebin"

// documentedCommands loads the application into the running VM, and starts spans there, by the commands of
// docs/reference/erlang.md. The script has compiled the application, and its folder takes the place of the document's.
func (s debianServer) documentedCommands() {
	s.t.Helper()
	text, err := os.ReadFile("../../docs/reference/erlang.md")
	if err != nil {
		s.t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^sudo rabbitmqctl eval '(.*)'$`).FindAllStringSubmatch(string(text), -1)
	if len(commands) != 2 {
		s.t.Fatalf("docs/reference/erlang.md has %d commands, want one that loads and one that starts spans", len(commands))
	}
	for _, c := range commands {
		// rabbitmqctl becomes this user by itself, but not in a root file system without accounts.
		s.run("run", "setpriv", "--reuid=rabbitmq", "--regid=rabbitmq", "--clear-groups", "env", "HOME=/var/lib/rabbitmq",
			"rabbitmqctl", "eval", strings.ReplaceAll(c[1], "/usr/local/lib/beamscope", libraryFolder))
	}
}

// explained checks the explanations in the windows of `run --explain`. All shares of a window add up to the
// time of its explained spans. The process that is known to be slow has more of the time than any other. If
// it is not the span's own, messages wait in its mailbox.
func (s debianServer) explained(pid string) {
	t := s.t
	t.Helper()
	text := fmt.Sprintf("outcomes:\n  %[1]s: {span: %[1]s, dmax: 10s, bins: 10000}\n", s.span)
	scope := filepath.Join(t.TempDir(), "scope.yaml")
	if err := os.WriteFile(scope, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := s.beamscope("run", "--explain", "--json", "-c", scope, "--pid", pid, "--for", "6s")
	windows, took, waited := 0, make(map[string]int64), int64(0)
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		var line struct {
			Outcome   string
			Observed  struct{ N int }
			Explained *struct {
				N      int
				Total  int64 `json:"total_ns"`
				Shares []struct {
					Kind, Name string
					Process    string
					Own        bool
					Duration   int64 `json:"duration_ns"`
				}
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		x := line.Explained
		if x == nil {
			continue
		}
		windows++
		sum := int64(0)
		for _, share := range x.Shares {
			sum += share.Duration
			name := share.Name
			if !share.Own && name == "" {
				name = share.Kind + share.Process // nobody's, such as an unexplained part, or without a name
			}
			took[name] += share.Duration
			if share.Kind == "mailbox" && share.Name == s.slow {
				waited += share.Duration
			}
		}
		if sum != x.Total || x.N == 0 || x.N > line.Observed.N {
			t.Errorf("%s: the shares of %d of %d spans are %d ns of %d: %s", line.Outcome, x.N, line.Observed.N, sum, x.Total, lines.Text())
		}
	}
	if windows == 0 {
		t.Fatalf("no window has an explained span: %s", out)
	}
	t.Logf("%d windows of %s, time by process: %v, in the mailbox of %q: %d", windows, s.span, took, s.slow, waited)
	for name, ns := range took {
		if name != s.slow && ns >= took[s.slow] {
			t.Errorf("%q has %d ns of %s, and %q %d", name, ns, s.span, s.slow, took[s.slow])
		}
	}
	if s.slow != "" && waited == 0 {
		t.Errorf("no time in the mailbox of %s: %v", s.slow, took)
	}
}

// truth prints the number of garbage collections so far many times, and then the name of each process.
const truth = `[begin timer:sleep(100), {N, _, _} = erlang:statistics(garbage_collection), io:format("gc ~b ~b~n", [os:system_time(), N]) end || _ <- lists:seq(1, 80)],
	Initial = fun(P) -> case proc_lib:translate_initial_call(P) of {proc_lib, init_p, 5} -> element(2, process_info(P, initial_call)); MFA -> MFA end end,
	[case process_info(P, registered_name) of
		{registered_name, Name} -> io:format("process ~p ~tp~n", [P, Name]);
		[] -> {M, F, A} = Initial(P), io:format("process ~p ~tp:~tp/~b~n", [P, M, F, A])
	end || P <- processes(), is_process_alive(P)], ok`

// A gcCount is the VM's own number of garbage collections at a time.
type gcCount struct {
	at time.Time
	n  int
}

// figures compares the figures of top with the VM's own.
func (s debianServer) figures(pid string) {
	t := s.t
	t.Helper()
	done := make(chan string, 1)
	go func() {
		out, err := s.command(t.Context(), "eval", truth).CombinedOutput()
		if err != nil {
			out = fmt.Append(out, err)
		}
		done <- string(out)
	}()
	rows := s.beamscope("top", "--json", "--pid", pid, "--for", "3s")
	said := <-done
	names, counts := make(map[string]string), []gcCount(nil)
	for line := range strings.Lines(said) {
		switch f := strings.Fields(line); {
		case len(f) == 3 && f[0] == "process":
			names[strings.Trim(f[1], `"`)] = f[2]
		case len(f) == 3 && f[0] == "gc":
			at, _ := strconv.ParseInt(f[1], 10, 64)
			n, _ := strconv.Atoi(f[2])
			counts = append(counts, gcCount{time.Unix(0, at), n})
		}
	}
	if len(names) == 0 || len(counts) == 0 {
		t.Fatalf("the VM says nothing: %s", said)
	}
	working, windows := 0, 0
	for lines := bufio.NewScanner(strings.NewReader(rows)); lines.Scan(); {
		var line struct {
			Type, Key, Name string
			Time            time.Time
			Window          struct {
				From int64 `json:"from_ns"`
				To   int64 `json:"to_ns"`
			}
			GC      struct{ N int }
			Mailbox struct{ N int }
			Memory  struct {
				Heap     int64 `json:"heap_bytes"`
				Function string
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		switch line.Type {
		case "row":
			if want, ok := names[line.Key]; ok && line.Name != want {
				t.Errorf("%s is called %q, the VM calls it %q", line.Key, line.Name, want)
			}
			if line.Name == s.process && line.Mailbox.N > 0 && line.Memory.Heap > 0 && line.Memory.Function != "" {
				working++
			}
		case "total":
			from := line.Time.Add(-time.Duration(line.Window.To - line.Window.From))
			least, most, ok := between(counts, from, line.Time)
			if !ok {
				continue
			}
			windows++
			const running = 10 // collections on all schedulers at both ends of the window, and more
			if line.GC.N < least-running || line.GC.N > most+running {
				t.Errorf("%d collections, the VM counts %d to %d", line.GC.N, least, most)
			}
		}
	}
	if working == 0 || windows == 0 {
		t.Errorf("%d rows of %s, %d windows within what the VM counted: %s", working, s.process, windows, rows)
	}
}

// between returns bounds of the number of collections in a time. ok is false if the VM did not
// count before and after that.
func between(counts []gcCount, from, to time.Time) (least, most int, ok bool) {
	at := func(when time.Time) (before, after gcCount, ok bool) {
		for i := 1; i < len(counts); i++ {
			if !counts[i-1].at.After(when) && counts[i].at.After(when) {
				return counts[i-1], counts[i], true
			}
		}
		return gcCount{}, gcCount{}, false
	}
	a, b, first := at(from)
	c, d, last := at(to)
	return c.n - b.n, d.n - a.n, first && last
}
