package scope

import (
	"cmp"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/outcome"
)

// Bounds of what is kept to compare with.
const (
	maxPast   = 60 // quiet windows, and as many others
	maxCauses = 64 // of each; what further ones come to is not compared
)

// What a shift takes.
const (
	leastQuiet  = 5   // windows
	leastGrowth = 0.1 // of a share
)

// An explaining is where the time of a probe's explained instances goes, window by
// window.
type explaining struct {
	now   Explained
	shift Shift        // memory for that of now
	tally Tally        // of now
	past  []pastWindow // the oldest first
}

// A pastWindow is a window that had explained instances.
type pastWindow struct {
	time  time.Time // wall time of its end
	quiet bool
	cut   bool // others between it and the one before it are not kept any more
	total time.Duration
	times []causeTime
}

// share returns the share of a cause.
func (w *pastWindow) share(c Cause) float64 {
	at := slices.IndexFunc(w.times, func(t causeTime) bool { return t.cause == c })
	if at < 0 {
		return 0
	}
	return float64(w.times[at].time) / float64(w.total)
}

// explain takes in the instances of a window that ends at a wall time, and returns where
// their time went; nil where none is explained.
func (x *explaining) explain(instances []outcome.Instance, end time.Time) *Explained {
	x.tally.reset()
	if x.tally.add(instances) {
		x.rename()
	}
	if x.tally.Total == 0 {
		return nil
	}
	x.now.Instances, x.now.Total = x.tally.Instances, x.tally.Total
	before := x.now.Shift
	x.now.Quiet = quiet(x.past)
	sortTimes(x.tally.times) // until it is reset
	x.now.Shares, x.now.Others, x.now.Causes = x.tally.appendShares(x.now.Shares[:0])
	for i := range x.now.Shares {
		s := &x.now.Shares[i]
		s.Usual, _ = usual(x.past, s.Cause)
	}
	x.now.Shift = nil
	if shift, ok := x.grown(before, end); ok {
		x.shift = shift
		x.now.Shift = &x.shift
	}
	return &x.now
}

// rename has what is kept go by the names of processes, as far as these are known.
func (x *explaining) rename() {
	for i := range x.past {
		x.past[i].times = x.tally.names.rename(x.past[i].times)
	}
	x.shift.Cause = x.tally.names.named(x.shift.Cause) // which may be compared with
}

// quiet returns how many of these windows are quiet.
func quiet(past []pastWindow) int {
	n := 0
	for i := range past {
		if past[i].quiet {
			n++
		}
	}
	return n
}

// usual returns the share of a cause in the quiet ones of some windows, and how many
// these are.
func usual(past []pastWindow, c Cause) (share float64, windows int) {
	var spent, total time.Duration
	for i := range past {
		w := &past[i]
		if !w.quiet {
			continue
		}
		windows++
		total += w.total
		if at := slices.IndexFunc(w.times, func(t causeTime) bool { return t.cause == c }); at >= 0 {
			spent += w.times[at].time
		}
	}
	if total == 0 {
		return 0, windows
	}
	return float64(spent) / float64(total), windows
}

// grown returns the cause whose share has grown most against the quiet windows; false
// where none has grown by enough, or there are too few. Before is the shift of the window
// before, nil where it had none.
func (x *explaining) grown(before *Shift, end time.Time) (Shift, bool) {
	if x.now.Quiet < leastQuiet {
		return Shift{}, false
	}
	most := slices.MaxFunc(x.now.Shares, func(a, b Share) int { return cmp.Compare(a.Of-a.Usual, b.Of-b.Usual) })
	if most.Of-most.Usual < leastGrowth {
		return Shift{}, false
	}
	return x.since(most, before, end), true
}

// since returns since when the share of a cause is what it is: from the first window of
// those in a row up to now in which it is closer to what it is now than to what it was in
// the quiet windows before that one. These go into what it has grown from; so the more
// windows belong to the row, the fewer do.
func (x *explaining) since(most Share, before *Shift, end time.Time) Shift {
	s := Shift{Cause: most.Cause, Doubt: most.Doubt, Since: end, From: most.Usual, To: most.Of}
	first := len(x.past)
	for {
		at := first
		for at > 0 && x.past[at-1].share(s.Cause) > (s.From+s.To)/2 {
			at--
		}
		if at == first {
			return s
		}
		for _, w := range x.past[at:first] {
			if w.cut && before != nil && before.Cause == s.Cause && before.Since.Before(x.past[at].time) {
				s.Since, s.From = before.Since, before.From // as was known when it was all there
				return s
			}
		}
		first = at
		s.Since = x.past[first].time
		from, quiet := usual(x.past[:first], s.Cause)
		if quiet == 0 {
			return s
		}
		s.From = from
	}
}

// keep has the window that was explained last compared with from now on.
func (x *explaining) keep(end time.Time, quiet bool) {
	w := pastWindow{time: end, quiet: quiet, total: x.now.Total}
	w.times = slices.Clone(x.tally.times[:min(len(x.tally.times), maxCauses)])
	x.past = append(x.past, w)
	same := func(p pastWindow) bool { return p.quiet == quiet }
	n := 0
	for i := range x.past {
		if same(x.past[i]) {
			n++
		}
	}
	if n <= maxPast {
		return
	}
	oldest := slices.IndexFunc(x.past, same)
	x.past[oldest+1].cut = true
	x.past = slices.Delete(x.past, oldest, oldest+1)
}
