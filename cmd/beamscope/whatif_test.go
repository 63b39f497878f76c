package main

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The commands eval, fmt and draw, which need no VM, work as specified.
func TestWhatIf(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/whatif",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"bounds": bounds, "qta": qta, "status": status},
	})
}

// An answer is the complete format of eval --json as designed.
type answer struct {
	Probes map[string]struct {
		Failure   span             `json:"failure"`
		Mean      *span            `json:"mean_s"`
		SD        *span            `json:"sd_s"`
		Quantiles []quantileAnswer `json:"quantiles"`
		Within    []withinAnswer   `json:"within"`
		Bin       float64          `json:"bin_s"`
		QTA       *struct {
			Met    *bool         `json:"met"`
			Slack  *marginAnswer `json:"slack"`
			Hazard *marginAnswer `json:"hazard"`
		} `json:"qta"`
	} `json:"outcomes"`
}

type span struct {
	Lo *float64 `json:"lo"`
	Hi *float64 `json:"hi"`
}

type quantileAnswer struct {
	P  float64  `json:"p"`
	Lo *float64 `json:"lo_s"`
	Hi *float64 `json:"hi_s"`
}

type withinAnswer struct {
	T  float64  `json:"t_s"`
	Lo *float64 `json:"lo"`
	Hi *float64 `json:"hi"`
}

type marginAnswer struct {
	Time        *float64 `json:"time_s"`
	Probability float64  `json:"probability"`
}

// strictly decodes standard output, which must be a single object in the format of an answer.
func strictly(ts *testscript.TestScript) answer {
	var a answer
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	d.DisallowUnknownFields()
	ts.Check(d.Decode(&a))
	if _, err := d.Token(); err != io.EOF {
		ts.Fatalf("more than one object: %v", err)
	}
	return a
}

// bounds is the command "bounds PROBE FIGURE LO EXACT HI", which checks the answer in standard
// output in seconds. The figure (failure, mean, sd, q:P or t:SECONDS) must have the bounds LO and
// HI, worked out by hand, up to rounding, and the bounds must contain EXACT.
func bounds(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 5 {
		ts.Fatalf("usage: bounds PROBE FIGURE LO EXACT HI")
	}
	probe, ok := strictly(ts).Probes[args[0]]
	if !ok {
		ts.Fatalf("no outcome %s", args[0])
	}
	var got *span
	kind, at, _ := strings.Cut(args[1], ":")
	switch kind {
	case "failure":
		got = &probe.Failure
	case "mean":
		got = probe.Mean
	case "sd":
		got = probe.SD
	case "q":
		for _, q := range probe.Quantiles {
			if q.P == number(ts, at) {
				got = &span{q.Lo, q.Hi}
			}
		}
	case "t":
		for _, w := range probe.Within {
			if w.T == number(ts, at) {
				got = &span{w.Lo, w.Hi}
			}
		}
	}
	checkSpan(ts, got, args[2:])
}

func checkSpan(ts *testscript.TestScript, got *span, want []string) {
	if want[0] == "null" {
		if got != nil && (got.Lo != nil || got.Hi != nil) {
			ts.Fatalf("not null")
		}
		return
	}
	if got == nil || got.Lo == nil || got.Hi == nil {
		ts.Fatalf("null")
	}
	lo, exact, hi := number(ts, want[0]), number(ts, want[1]), number(ts, want[2])
	if math.Abs(*got.Lo-lo) > 1e-12 || math.Abs(*got.Hi-hi) > 1e-12 {
		ts.Fatalf("%v to %v, want %v to %v", *got.Lo, *got.Hi, lo, hi)
	}
	if *got.Lo > exact || *got.Hi < exact {
		ts.Fatalf("%v to %v do not contain %v", *got.Lo, *got.Hi, exact)
	}
}

// qta is the command "qta PROBE MET slack|hazard SECONDS PROBABILITY"; SECONDS may
// be null.
func qta(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 5 {
		ts.Fatalf("usage: qta PROBE MET slack|hazard SECONDS PROBABILITY")
	}
	got := strictly(ts).Probes[args[0]].QTA
	if got == nil {
		ts.Fatalf("%s is not judged", args[0])
	}
	met, margin, other := "null", got.Slack, got.Hazard
	if got.Met != nil {
		met = strconv.FormatBool(*got.Met)
	}
	if args[2] == "hazard" {
		margin, other = got.Hazard, got.Slack
	}
	if met != args[1] || margin == nil || other != nil {
		ts.Fatalf("met %s, slack %v, hazard %v", met, got.Slack, got.Hazard)
	}
	if math.Abs(margin.Probability-number(ts, args[4])) > 1e-12 {
		ts.Fatalf("probability %v", margin.Probability)
	}
	if args[3] == "null" {
		if margin.Time != nil {
			ts.Fatalf("time %v", *margin.Time)
		}
		return
	}
	if margin.Time == nil || math.Abs(*margin.Time-number(ts, args[3])) > 1e-12 {
		ts.Fatalf("time %v", margin.Time)
	}
}

// status is the command "status N PROGRAM ARGS…", which checks that the program exits with status
// N.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N PROGRAM ARGS…")
	}
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("status %d, want %s", got, args[0])
	}
}

func number(ts *testscript.TestScript, text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	ts.Check(err)
	return x
}
