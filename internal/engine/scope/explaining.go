package scope

import (
	"cmp"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// Limits of what is kept for comparisons.
const (
	maxPast   = 60 // quiet windows, and the same number of others
	maxCauses = 64 // causes of each window; further ones are not compared
)

// Conditions for a shift.
const (
	leastQuiet  = 10  // quiet windows before it
	leastGrowth = 0.1 // least growth of a share; half of that once the shift is shown
	settling    = 5   // windows in a row before it is shown

	// outliers is the part of the quiet windows that may have a share as large as the windows in
	// a row. In n similar windows without outliers, the last ones are the largest by chance with
	// a probability of settling! (n-settling)! / n!.
	outliers = 0.05

	// suddenQuiet is the number of quiet windows that a growth in a single window needs, if a
	// trigger has fired in this window.
	suddenQuiet = 5
)

// An explaining tracks where the time of an outcome's explained instances goes, window by window.
type explaining struct {
	now    Explained
	shift  Shift        // memory for the present shift
	sudden *Shift       // growth in this window alone, or nil
	tally  Tally        // of the present window
	past   []pastWindow // the oldest first
}

// A pastWindow is an earlier window with explained instances.
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

// explain adds the instances of a window that ends at a wall time, and returns where their time
// went. It returns nil if none is explained.
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
	sortTimes(x.tally.times) // the index is wrong until the next reset
	x.now.Shares, x.now.Others, x.now.Causes = x.tally.appendShares(x.now.Shares[:0])
	for i := range x.now.Shares {
		s := &x.now.Shares[i]
		s.Usual, _ = usual(x.past, s.Cause)
	}
	x.now.Shift, x.sudden = x.settled(before, end), x.grown(end)
	return &x.now
}

// rename replaces processes by their names in the kept data, as far as names are known.
func (x *explaining) rename() {
	for i := range x.past {
		x.past[i].times = x.tally.names.rename(x.past[i].times)
	}
	x.shift.Cause = x.tally.names.named(x.shift.Cause) // later causes are compared with it
}

// quiet returns the number of quiet windows.
func quiet(past []pastWindow) int {
	n := 0
	for i := range past {
		if past[i].quiet {
			n++
		}
	}
	return n
}

// usual returns the share of a cause in the quiet windows, and the number of these windows.
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

// grown returns the cause whose share has grown most in this window compared with the quiet ones.
// It returns nil if none has grown enough, or if there are too few quiet windows.
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

// settled returns the shift to show: the previous one until it is over, and then one that has
// shown in all of the last windows.
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

// lasting returns a shift with its present share, or false if the shift is over.
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

// risen returns the cause whose share has grown most in the last windows compared with the quiet
// ones before. In each of the last windows the share is larger than in nearly all quiet ones. It
// returns false if there is no such cause or too few windows.
func (x *explaining) risen(end time.Time) (found Shift, ok bool) {
	row := max(0, len(x.past)-(settling-1))
	if quiet(x.past[:row]) < leastQuiet {
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

// lately returns the median and the least share of a cause in the last windows, including the
// present one.
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

// unusual reports whether a share of a cause is larger than in all quiet windows except outliers.
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

// since returns the shift with its beginning: the first of the latest windows in a row whose
// share is closer to the present one than to the earlier share. The earlier share is that of the
// quiet windows before this beginning. So the earlier the beginning, the fewer windows are
// compared.
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

// keep adds the last explained window to those with which later ones are compared.
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
