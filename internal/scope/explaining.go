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
	leastQuiet  = 10  // quiet windows before it
	leastGrowth = 0.1 // of a share; once it is shown, half of that
	settling    = 5   // windows in a row in which it shows before it is shown

	// outliers is the part of the quiet windows that may have a share as large as one of
	// these windows in a row. In n windows that nothing sets apart, all without outliers, the
	// last ones are the largest by chance once in n! / (settling! (n-settling)!).
	outliers = 0.05

	// suddenQuiet is how many quiet windows a growth takes that is told of one window, where
	// a trigger has found this window unusual.
	suddenQuiet = 5
)

// An explaining is where the time of a probe's explained instances goes, window by
// window.
type explaining struct {
	now    Explained
	shift  Shift        // memory for that of now
	sudden *Shift       // what has grown in this window alone; nil where nothing has
	tally  Tally        // of now
	past   []pastWindow // the oldest first
}

// A pastWindow is a window that had explained instances.
type pastWindow struct {
	time  time.Time // wall time of its end
	quiet bool
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
	x.now.Shift, x.sudden = x.settled(before, end), x.grown(end)
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

// grown returns the cause whose share has grown most in this window against the quiet ones;
// nil where none has grown by enough, or there are too few.
func (x *explaining) grown(end time.Time) *Shift {
	if x.now.Quiet < suddenQuiet {
		return nil
	}
	most := slices.MaxFunc(x.now.Shares, func(a, b Share) int { return cmp.Compare(a.Of-a.Usual, b.Of-b.Usual) })
	if most.Of-most.Usual < leastGrowth {
		return nil
	}
	s := x.since(Shift{Cause: most.Cause, Doubt: most.Doubt, Since: end, From: most.Usual, To: most.Of})
	return &s
}

// settled returns the shift to show: that of the window before, nil where it had none, until
// that is over; then one that has shown in all of the last windows.
func (x *explaining) settled(before *Shift, end time.Time) *Shift {
	s, ok := Shift{}, false
	if before != nil {
		s, ok = x.lasting(*before)
	}
	if !ok {
		s, ok = x.risen(end)
	}
	if !ok {
		return nil
	}
	x.shift = s
	return &x.shift
}

// lasting returns a shift as it is now; false where it is over.
func (x *explaining) lasting(s Shift) (Shift, bool) {
	s.To, _ = x.lately(s.Cause)
	if from, _ := usual(x.past, s.Cause); s.To-from < leastGrowth/2 {
		return Shift{}, false
	}
	if at, ok := x.tally.index[s.Cause]; ok {
		s.Doubt = x.tally.times[at].doubt()
	}
	return s, true
}

// risen returns the cause whose share has grown most in the last windows against the quiet
// ones before them. In each of the last windows, the share is larger than in nearly all of
// the quiet ones. It is false where there is no such cause, or too few windows.
func (x *explaining) risen(end time.Time) (found Shift, ok bool) {
	row := len(x.past) - (settling - 1)
	if row < 0 || quiet(x.past[:row]) < leastQuiet {
		return Shift{}, false
	}
	for i := range x.now.Shares {
		s := &x.now.Shares[i]
		to, least := x.lately(s.Cause)
		from, _ := usual(x.past[:row], s.Cause)
		if to-from < max(leastGrowth, found.To-found.From) || !unusual(x.past[:row], s.Cause, least) {
			continue
		}
		found, ok = Shift{Cause: s.Cause, Doubt: s.Doubt, Since: end, From: from, To: to}, true
	}
	if !ok {
		return Shift{}, false
	}
	return x.since(found), true
}

// lately returns the median and the least share of a cause in the last windows, this one
// among them.
func (x *explaining) lately(c Cause) (median, least float64) {
	var shares [settling]float64
	if at, ok := x.tally.index[c]; ok {
		shares[0] = float64(x.tally.times[at].time) / float64(x.now.Total)
	}
	n := 1
	for i := len(x.past) - 1; i >= 0 && n < settling; i-- {
		shares[n] = x.past[i].share(c)
		n++
	}
	slices.Sort(shares[:n])
	return shares[n/2], shares[0]
}

// unusual tells whether a share of a cause is larger than in the quiet ones of some windows,
// but for outliers.
func unusual(past []pastWindow, c Cause, share float64) bool {
	windows, as := 0, 0
	for i := range past {
		if w := &past[i]; w.quiet {
			windows++
			if w.share(c) >= share {
				as++
			}
		}
	}
	return float64(as) <= outliers*float64(windows)
}

// since returns a shift with the time since when it is what it is: from the first window of
// those in a row up to now in which its share is closer to what it is now than to what it was
// in the quiet windows before that one. These go into what it has grown from; so the more
// windows belong to the row, the fewer do.
func (x *explaining) since(s Shift) Shift {
	first := len(x.past)
	for {
		at := first
		for at > 0 && x.past[at-1].share(s.Cause) > (s.From+s.To)/2 {
			at--
		}
		if at == first {
			return s
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
	x.past = slices.Delete(x.past, oldest, oldest+1)
}
