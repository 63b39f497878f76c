package eval

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
)

const ms = time.Millisecond

func grid(t testing.TB) dq.Grid {
	t.Helper()
	g, err := dq.NewGrid(ms, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func ask(t *testing.T, source string, models map[string]string) Question {
	t.Helper()
	f, err := diagram.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	return Question{Diagram: f, Models: models, Grid: grid(t)}
}

func TestAnswer(t *testing.T) {
	q := ask(t, "p = a -> f:g(b, c);", map[string]string{"a": "wait(2ms)", "b": "never", "c": "0.5*wait(4ms)"})
	q.Quantiles, q.Within = []float64{0.5, 0.75}, []time.Duration{5 * ms, 6 * ms}
	qta, err := ParseQTA("0.25@10ms,failure@0.6")
	if err != nil {
		t.Fatal(err)
	}
	q.QTA = &qta
	r, err := Answer(q)
	if err != nil {
		t.Fatal(err)
	}
	mean := r.Probes["p"].Mean
	if *mean.Lo > 0.006 || *mean.Lo < 0.006-1e-17 || *mean.Hi < 0.006 || *mean.Hi > 0.006+1e-17 {
		t.Errorf("mean %v to %v", *mean.Lo, *mean.Hi)
	}
	*mean.Lo, *mean.Hi = 0.006, 0.006
	got, err := json.MarshalIndent(r.Probes["p"], "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
 "failure": {
  "lo": 0.5,
  "hi": 0.5
 },
 "mean_s": {
  "lo": 0.006,
  "hi": 0.006
 },
 "sd_s": {
  "lo": 0,
  "hi": 0
 },
 "quantiles": [
  {
   "p": 0.5,
   "lo_s": 0.006,
   "hi_s": 0.006
  },
  {
   "p": 0.75,
   "lo_s": null,
   "hi_s": null
  }
 ],
 "within": [
  {
   "t_s": 0.005,
   "lo": 0,
   "hi": 0
  },
  {
   "t_s": 0.006,
   "lo": 0.5,
   "hi": 0.5
  }
 ],
 "qta": {
  "met": true,
  "slack": {
   "time_s": 0.004,
   "probability": 0.09999999999999998
  },
  "hazard": null
 },
 "bin_s": 0.001
}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if r.Probes["g"] == nil || r.Probes["g"].QTA != nil || r.Values["g"] == nil {
		t.Errorf("probe g: %+v", r.Probes["g"])
	}
}

func TestAnswerOfNever(t *testing.T) {
	q := ask(t, "p = a -> b;", map[string]string{"a": "never", "b": "exp(1ms)"})
	q.Quantiles = []float64{0.5}
	r, err := Answer(q)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Probes["p"]
	if p.Mean != nil || p.Quantiles[0].Lo != nil || *p.Failure.Lo != 1 || *p.Failure.Hi != 1 {
		t.Errorf("%+v", p)
	}
}

func TestModels(t *testing.T) {
	files := fstest.MapFS{"x.csv": {Data: []byte("# seconds\n0.001\n\n 0.0035\nfail\ntimeout\n")}}
	open := func(name string) (io.ReadCloser, error) { return files.Open(name) }
	for text, want := range map[string][2]float64{ // bounds of the success within 3 ms
		"never":                             {0, 0},
		"wait(3ms)":                         {1, 1},
		" wait( 3ms ) ":                     {1, 1},
		"uniform(1ms,5ms)":                  {0.5, 0.75},
		"0.5*uniform(1ms,5ms)":              {0.25, 0.375},
		"0.5 * 0.5*wait(1ms)":               {0.25, 0.25},
		"steps(1ms:0.3, 3ms:1)":             {1, 1},
		"steps(1ms:0.3,4ms:0.5)":            {0.3, 0.3},
		"samples(x.csv)":                    {0.25, 0.5},
		"samples(x.csv, 0.5)":               {0, 0.5 + 0.4162773059},
		"cdf(1ms:0.2..0.3, 3ms:.5..6e-1)":   {0.5, 0.6},
		"cdf(1ms:0.2..0.3, 4ms:0.5..0.6)":   {0.2, 0.6},
		"0.5*cdf(3ms:1)":                    {0.5, 0.5},
		"pareto(5ms, 2)":                    {0, 0},
		"0*gamma(3ms, 2)":                   {0, 0},
		"timeout(2ms,wait(3ms))":            {0, 0},
		"retry(2,2ms,0.5*wait(1ms))":        {0.75, 0.75},
		"overlap(2, 2ms, 0.5 * wait(1ms))":  {0.75, 0.75},
		"timeout(9ms, steps(1ms:.3,3ms:1))": {1, 1},
	} {
		d, err := Model(text, grid(t), open)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if b, _ := d.ProbabilityWithin(3 * ms); math.Abs(b.Lo-want[0]) > 1e-9 || math.Abs(b.Hi-want[1]) > 1e-9 {
			t.Errorf("%s: %v, want %v", text, b, want)
		}
	}
}

func TestModelsRefused(t *testing.T) {
	for _, text := range []string{
		"", "wait", "wait()", "wait(2)", "wait(2ms", "wait(1ms,2ms)", "never(1)", "what(1ms)", "x*wait(1ms)", "uniform(1ms)",
		"normal(1ms)", "normal(1ms, 2)", "lognormal(1ms)", "lognormal(1ms, x)", "gamma(2, 1ms)", "weibull(1ms, 1ms)", "pareto(1ms,1,1)",
		"samples(x.csv, 1)", "samples(x.csv, x)", "samples(x.csv, 0.5, 1)", "cdf(1ms)", "cdf(1ms:x)", "cdf(1ms:0.1..x)", "cdf(1:0.1)",
		"steps(1ms)", "samples(x.csv)", "retry(x,1ms,never)", "timeout(1ms)", "wait(1ms))", "0.5*",
		strings.Repeat("timeout(1ms,", 100) + "never" + strings.Repeat(")", 100), "wait(1ms)*0.5",
	} {
		if _, err := Model(text, grid(t), nil); !errors.Is(err, ErrModel) {
			t.Errorf("%q: %v, want ErrModel", text, err)
		}
	}
	for text, want := range map[string]error{
		"1.5*wait(1ms)": dq.ErrProbability, "wait(-1ms)": dq.ErrDelay, "uniform(2ms,1ms)": dq.ErrDelay,
		"normal(1ms, 0s)": dq.ErrDelay, "lognormal(1ms, 0)": dq.ErrShape, "gamma(1ms, -1)": dq.ErrShape, "weibull(0s, 1)": dq.ErrDelay,
		"pareto(1ms, NaN)": dq.ErrShape, "cdf()": dq.ErrOperands, "cdf(1ms:0.5..0.4)": dq.ErrProbability,
		"steps()": dq.ErrOperands, "steps(1ms:0.5,1ms:0.6)": dq.ErrDelay, "retry(0,1ms,never)": dq.ErrOperands,
	} {
		if _, err := Model(text, grid(t), nil); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	missing := func(string) (io.ReadCloser, error) { return nil, fs.ErrNotExist }
	if _, err := Model("samples(x)", grid(t), missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// A byte-order mark at the beginning is not part of the first sample or comment.
func TestReadSamplesSkipsByteOrderMark(t *testing.T) {
	for _, text := range []string{"\ufeff0.001\nfail\n", "\ufeff# seconds\n0.001\nfail\n"} {
		delays, failures, err := ReadSamples(strings.NewReader(text))
		if err != nil || len(delays) != 1 || delays[0] != ms || failures != 1 {
			t.Errorf("%q: %v, %d, %v", text, delays, failures, err)
		}
	}
	if _, _, err := ReadSamples(strings.NewReader("0.001\n\ufeff0.002\n")); !errors.Is(err, ErrModel) {
		t.Errorf("a byte-order mark in the middle: %v", err)
	}
}

func TestReadSamplesRefuses(t *testing.T) {
	for _, text := range []string{"-1", "x", "1e99", "NaN", "1,2", "0.1\nfailed"} {
		if _, _, err := ReadSamples(strings.NewReader(text)); !errors.Is(err, ErrModel) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestQuestionsRefused(t *testing.T) {
	models := map[string]string{"a": "never", "b": "never"}
	good := func() Question { return ask(t, "p = a -> b;", models) }
	for name, change := range map[string]func(*Question){
		"no model":        func(q *Question) { q.Models = map[string]string{"a": "never"} },
		"no such":         func(q *Question) { q.Models = map[string]string{"a": "never", "b": "never", "c": "never"} },
		"no diagram":      func(q *Question) { q.Diagram = nil },
		"empty":           func(q *Question) { q.Diagram = &diagram.File{} },
		"quantile of 2":   func(q *Question) { q.Quantiles = []float64{2} },
		"within the past": func(q *Question) { q.Within = []time.Duration{-1} },
	} {
		q := good()
		change(&q)
		if _, err := Answer(q); !errors.Is(err, ErrQuestion) {
			t.Errorf("%s: %v, want ErrQuestion", name, err)
		}
	}
}

func TestParseQTARefuses(t *testing.T) {
	for _, text := range []string{"", "0.5", "0.5@", "0.5@3", "x@1s", "0.5@1s,", "failure@x"} {
		if _, err := ParseQTA(text); !errors.Is(err, ErrQTA) {
			t.Errorf("%q: %v, want ErrQTA", text, err)
		}
	}
}

func FuzzModel(f *testing.F) {
	for _, s := range []string{"0.95*uniform(1ms,2ms)", "steps(1ms:0.3, 3ms:1)", "retry(3,1ms,exp(2ms))", "timeout(1h,wait(104h))",
		"normal(1ms, 2ms)", "lognormal(1ms, .5)", "gamma(1ms, 2)", "weibull(1ms, 2)", "pareto(1ms, 2)", "cdf(1ms:0.1..0.2, 3ms:0.5)"} {
		f.Add(s)
	}
	g, err := dq.NewGrid(time.Millisecond, 10)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Model(text, g, nil)
		if err != nil {
			return
		}
		if b, ok := d.Success(); !ok || b.Lo > b.Hi || b.Lo < 0 || b.Hi > 1 {
			t.Errorf("%q: success %v", text, b)
		}
		if m, ok := d.Moments(); ok {
			for _, b := range []dq.Bounds{m.Mean, m.SD} {
				if !(b.Lo <= b.Hi) {
					t.Errorf("%q: moments %+v", text, m)
				}
			}
		}
	})
}

func FuzzReadSamples(f *testing.F) {
	f.Add("0.1\nfail\n#\n")
	f.Fuzz(func(t *testing.T, text string) {
		delays, _, err := ReadSamples(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, d := range delays {
			if d < 0 || d > dq.MaxModelDelay {
				t.Errorf("%v", d)
			}
		}
	})
}

func FuzzParseQTA(f *testing.F) {
	f.Add("0.5@1s,0.95@4s,failure@0.1")
	f.Fuzz(func(t *testing.T, text string) {
		q, err := ParseQTA(text)
		if err == nil && !(q.MinSuccess() >= 0 && q.MinSuccess() <= 1) {
			t.Errorf("%q: %v", text, q.MinSuccess())
		}
	})
}

// Further questions: the order of two ΔQs, the residual, and the budget.
func TestFurther(t *testing.T) {
	q := ask(t, "whole = a -> b; slow = c;", map[string]string{"a": "steps(1ms:0.5, 3ms:1)", "b": "wait(5ms)", "c": "wait(50ms)"})
	q.Quantiles = []float64{0.5, 1}
	q.Compare, q.Residual, q.Budget, q.SD = Pair{"whole", "slow"}, Pair{"whole", "a"}, "a", true
	qta, err := ParseQTA("0.5@20ms,1@30ms,failure@0")
	if err != nil {
		t.Fatal(err)
	}
	q.QTA = &qta
	r, text := table(t, q)
	if r.Comparison.Order != "less" || *r.Residual.Error != 0 || *r.Residual.Estimate.Quantiles[0].Lo != 0.005 || *r.Residual.Estimate.Quantiles[1].Hi != 0.005 {
		t.Errorf("%+v, %+v", r.Comparison, r.Residual)
	}
	if *r.Budget.Delay != 0.019 || r.Budget.Failure != 0 {
		t.Errorf("budget %+v", r.Budget)
	}
	for _, want := range []string{
		"       failure  mean   sd   p50  p100\n", "\nwhole is at least as good as slow, at any delay.\n", "\nWhat remains of whole without a:\n",
		"\nbounds         0%   5ms   0  5ms   5ms\nestimate       0%   5ms   0  5ms   5ms\n", "\nThe requirement leaves for what follows a:\n  a delay of up to 19ms, if it never fails\n  a failure of up to 0%, if it takes no time\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}

	// An impossible answer is reported, and is not an error.
	q.Residual, q.Budget = Pair{"a", "whole"}, "slow"
	r, text = table(t, q)
	if r.Residual.Impossible == "" || r.Budget.Impossible == "" {
		t.Errorf("%+v, %+v", r.Residual, r.Budget)
	}
	for _, want := range []string{"a is no sequence of whole and something independent: no residual exists: ", "The requirement leaves nothing for what follows slow: "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if r.Budget.Left != nil || r.Residual.Error != nil {
		t.Errorf("a budget where nothing is left: %+v", r.Budget)
	}
	for name, change := range map[string]func(*Question){
		"compare":        func(q *Question) { q.Compare.Second = "nobody" },
		"residual":       func(q *Question) { q.Residual.First = "nobody" },
		"budget":         func(q *Question) { q.Budget = "nobody" },
		"no requirement": func(q *Question) { q.QTA = nil },
	} {
		wrong := q
		change(&wrong)
		if _, err := Answer(wrong); !errors.Is(err, ErrQuestion) {
			t.Errorf("%s: %v, want ErrQuestion", name, err)
		}
	}
	for _, text := range []string{"", "a", "a,", ",b", "a,b,c"} {
		if _, err := ParsePair(text); !errors.Is(err, ErrQuestion) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A requirement on failure is one on success at any delay, and the sentence shows that.
func TestBudgetOfFailure(t *testing.T) {
	for _, test := range []struct{ model, want string }{
		{"steps(6ms:0.081, 8ms:0.745)", "The requirement leaves nothing for what follows a: it needs success in ≈83%, and a alone succeeds in ≈74.5% at most.\n"},
		{"steps(6ms:0.001, 8ms:1)", "The requirement leaves nothing for what follows a: it needs success in ≈2% within 6ms, and a alone succeeds in ≈0.1% at most.\n"},
	} {
		q := ask(t, "w = a", map[string]string{"a": test.model})
		qta, err := ParseQTA("0.02@6ms,0.05@38ms,failure@0.17")
		if err != nil {
			t.Fatal(err)
		}
		q.QTA, q.Budget = &qta, "a"
		if _, text := table(t, q); !strings.Contains(text, test.want) {
			t.Errorf("no %q in\n%s", test.want, text)
		}
	}
}

// If the bounds of a part allow that it meets the requirement, the budget reports that the bounds
// cannot tell. JSON then has no figures of what is left, as if nothing is left.
func TestBudgetThatBoundsCannotTell(t *testing.T) {
	for _, test := range []struct {
		model, base, qta, text, json string
	}{
		{"uniform(1ms,3ms)", "1ms", "0.6@2500us",
			"The bounds cannot tell whether the requirement leaves anything for what follows a: it needs success in ≈60% within 2.5ms, and a alone succeeds in at least 50% and at most 100%: a smaller --base narrows them.\n",
			`{"part":"a","undecided":"it needs success in ≈60% within 2.5ms, and a alone succeeds in at least 50% and at most 100%"}`},
		{"wait(7ms)", "3ms", "0.8@7ms",
			"The bounds cannot tell whether the requirement leaves anything for what follows a: it needs success in ≈80% within 7ms, and a alone succeeds in at least 0% and at most 100%: a smaller --base narrows them.\n",
			`{"part":"a","undecided":"it needs success in ≈80% within 7ms, and a alone succeeds in at least 0% and at most 100%"}`},
		// The bounds cannot decide one point, but another point is certainly missed.
		{"uniform(1ms,3ms)", "1ms", "0.6@2500us,0.9@1ms",
			"The requirement leaves nothing for what follows a: it needs success in ≈90% within 1ms, and a alone succeeds in 50% at most.\n",
			`{"part":"a","impossible":"it needs success in ≈90% within 1ms, and a alone succeeds in 50% at most"}`},
		{"uniform(1ms,3ms)", "10us", "0.6@2500us", "The requirement leaves for what follows a:\n  a delay of up to 300µs, if it never fails\n  a failure of up to ≈20%, if it takes no time\n", `{"part":"a","delay_s":0.0003,"failure":0.19999999999`},
		// The requirement on failure has no delay.
		{"timeout(2500us, uniform(1ms,3ms))", "1ms", "failure@0.4",
			"The bounds cannot tell whether the requirement leaves anything for what follows a: it needs success in ≈60%, and a alone succeeds in at least 50% and at most 100%: a smaller --base narrows them.\n",
			`{"part":"a","undecided":"it needs success in ≈60%, and a alone succeeds in at least 50% and at most 100%"}`},
	} {
		q := ask(t, "w = a", map[string]string{"a": test.model})
		base, err := time.ParseDuration(test.base)
		if err != nil {
			t.Fatal(err)
		}
		if q.Grid, err = dq.NewGrid(base, 1000); err != nil {
			t.Fatal(err)
		}
		qta, err := ParseQTA(test.qta)
		if err != nil {
			t.Fatal(err)
		}
		q.QTA, q.Budget = &qta, "a"
		r, text := table(t, q)
		if !strings.Contains(text, test.text) {
			t.Errorf("no %q in\n%s", test.text, text)
		}
		got, err := json.Marshal(r.Budget)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(got), test.json) {
			t.Errorf("no %s in %s", test.json, got)
		}
	}
}
