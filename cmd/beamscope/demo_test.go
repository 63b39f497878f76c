package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A seen collects the frames of a bundled recording.
type seen []*scope.Frame

func (s *seen) Frame(f *scope.Frame) error { *s = append(*s, f.Clone()); return nil }
func (s *seen) Close() error               { return nil }

func bundled(t *testing.T, name string) seen {
	t.Helper()
	data, err := demoFiles.ReadFile(name + ".bsr")
	if err != nil {
		t.Fatal(err)
	}
	in, err := recording.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var all seen
	if err := replay(t.Context(), session.Replay{}, in, in.Header, &all, io.Discard); err != nil {
		t.Fatal(err)
	}
	return all
}

// The bundled recordings show the effects that their systems demonstrate: they are calm most of
// the time, and then show the fault.
func TestBundledRecordings(t *testing.T) {
	p50 := func(p *scope.Outcome) time.Duration {
		d, ok := p.Observed.QuantileFigure(0.5)
		if !ok {
			return p.Spec.DMax()
		}
		return d
	}
	for name, effect := range map[string]func(w1, w2, probe *scope.Outcome) bool{
		"mm1k": func(_, _, probe *scope.Outcome) bool { return probe.Counts.Failures*5 > probe.Counts.Instances() },
		"ftf": func(w1, w2, probe *scope.Outcome) bool {
			return p50(w2) > 20*time.Millisecond && p50(probe) <= p50(w1)
		},
		"atf": func(w1, w2, probe *scope.Outcome) bool {
			return p50(w2) > p50(w1)+time.Millisecond && p50(probe) >= p50(w2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			frames := bundled(t, name)
			shown := 0
			for _, f := range frames {
				if len(f.Outcomes) != 3 {
					t.Fatalf("window %d has %d probes", f.Number, len(f.Outcomes))
				}
				w1, w2, probe := &f.Outcomes[0], &f.Outcomes[1], &f.Outcomes[2]
				for _, p := range f.Outcomes {
					if p.Counts.Loss != (outcome.Loss{}) || p.Counts.Unobserved {
						t.Errorf("window %d: loss at %s: %+v", f.Number, p.Name, p.Counts.Loss)
					}
				}
				if probe.Calculated.Empty() || probe.Divergence == nil {
					t.Errorf("window %d: nothing was calculated", f.Number)
				}
				if effect(w1, w2, probe) {
					shown++
				}
			}
			if len(frames) < 35 || shown < 3 || shown > len(frames)/2 {
				t.Errorf("%d windows, of which %d show the effect", len(frames), shown)
			}
		})
	}
}

// If eBPF cannot be used, the demonstration plays the recording for the requested time.
func TestShowRecording(t *testing.T) {
	var out, log bytes.Buffer
	s, err := demoSystemNamed("mm1k")
	if err != nil {
		t.Fatal(err)
	}
	if err := showRecording(t.Context(), s, 2*time.Second, 0, &out, &log); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "  window "); got != 2 {
		t.Errorf("%d frames, want 2:\n%s", got, out.String())
	}
	if !strings.Contains(log.String(), "recorded 2026-") {
		t.Errorf("no message that it is a recording:\n%s", log.String())
	}
}

// The recording contains no explanations. With --explain the command reports that instead of
// playing it.
func TestExplainedDemoWithoutEBPF(t *testing.T) {
	s, err := demoSystemNamed("mm1k")
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("no eBPF")
	var out bytes.Buffer
	err = recorded(t.Context(), s, demoFlags{explain: true, headless: true, duration: time.Second}, why, &out, io.Discard)
	if !errors.Is(err, why) || !strings.HasPrefix(err.Error(), "--explain: this machine cannot show the demo live, ") || out.Len() > 0 {
		t.Errorf("error %v, and %q", err, out.String())
	}
}

// The explanations of the demonstration say what the workers do: they sleep.
func TestDemoExplained(t *testing.T) {
	vmtest.NeedEBPF(t)
	t.Setenv("BEAMSCOPE_OTP", vmtest.Private(t).Dir)
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // folder of the snapshots
	for _, name := range []string{"ftf", "atf"} {
		s, err := demoSystemNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		var out, log bytes.Buffer
		if err := demo(t.Context(), s, demoFlags{explain: true, headless: true, duration: 5 * time.Second}, &out, &log); err != nil {
			t.Fatal(err)
		}
		explained := regexp.MustCompile(`(?m)^(?:worker_[12]|probe): .*`).FindAllString(out.String(), -1)
		sleeps := 0
		for _, line := range explained {
			if strings.Contains(line, "waiting for a timer") {
				sleeps++
			}
		}
		if sleeps == 0 || sleeps <= len(explained)/2 {
			t.Errorf("%s: %d of %d explanations say that a worker sleeps:\n%s\n%s", name, sleeps, len(explained), strings.Join(explained, "\n"), &log)
		}
	}
}

// With --stock the demonstration runs on the VM in the PATH, without probes and without eBPF.
func TestDemoOnStockVM(t *testing.T) {
	commands := stockCommands(t)            // the VM is in the present cache
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // folder of the snapshots
	t.Setenv("PATH", commands+":"+os.Getenv("PATH"))
	s, err := demoSystemNamed("mm1k")
	if err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	if err := demo(t.Context(), s, demoFlags{stock: true, headless: true, duration: 3 * time.Second}, &out, &log); err != nil {
		t.Fatal(err)
	}
	observed := regexp.MustCompile(`(?m)^ +probe +[1-9][0-9]+ `)
	if !strings.Contains(log.String(), "starting Erlang/OTP 25.") || !observed.MatchString(out.String()) {
		t.Errorf("want OTP 25, and instances of probe:\n%s\n%s", &log, &out)
	}
}
