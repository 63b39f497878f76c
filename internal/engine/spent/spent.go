// Package spent calculates the growth of a total in a window, if the total is read at other times
// than the beginning and the end of the window.
package spent

import (
	"cmp"
	"slices"
)

// A Total is a count that grows, and was read at some times. The zero value was never read.
type Total struct{ readings []reading }

type reading struct {
	at    int64 // nanoseconds
	total float64
}

// Read adds the total at a time, in nanoseconds of any clock. Times must not decrease.
func (t *Total) Read(at int64, total float64) {
	t.readings = append(t.readings, reading{at, total})
}

// Grow records that the total has grown by a number since it was last read.
func (t *Total) Grow(at int64, by float64) {
	if n := len(t.readings); n > 0 {
		by += t.readings[n-1].total
	}
	t.Read(at, by)
}

// Within returns how much the total grew in [from, to), as if it grew evenly between two
// readings. Before the first reading and after the last one it did not grow.
func (t *Total) Within(from, to int64) float64 { return t.at(to) - t.at(from) }

// Forget drops readings that are not needed for times from before on.
func (t *Total) Forget(before int64) {
	n, found := t.search(before)
	if !found {
		n--
	}
	if n > 0 {
		t.readings = slices.Delete(t.readings, 0, n)
	}
}

// at returns the total at a time.
func (t *Total) at(time int64) float64 {
	n, found := t.search(time)
	switch {
	case len(t.readings) == 0:
		return 0
	case found || n == 0:
		return t.readings[n].total
	case n == len(t.readings):
		return t.readings[n-1].total
	}
	a, b := t.readings[n-1], t.readings[n]
	return a.total + (b.total-a.total)*float64(time-a.at)/float64(b.at-a.at)
}

// search returns the index of the first reading at a time or after it, and whether one is at it.
func (t *Total) search(time int64) (int, bool) {
	return slices.BinarySearchFunc(t.readings, time, func(r reading, time int64) int { return cmp.Compare(r.at, time) })
}
