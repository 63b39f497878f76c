package script

import "container/heap"

// An item is a record that waits for its turn.
type item struct {
	record
	at  int64  // nanoseconds of our CLOCK_MONOTONIC
	seq uint64 // of those at the same time the first that came is the first
}

// A waiting puts records into the order of their times.
type waiting struct {
	items items
	seq   uint64
	bytes int // of the texts of all
}

func (w *waiting) len() int { return len(w.items) }

// first returns the time of the first.
func (w *waiting) first() int64 { return w.items[0].at }

func (w *waiting) push(at int64, r record) {
	w.seq++
	w.bytes += r.bytes()
	heap.Push(&w.items, &item{r, at, w.seq})
}

func (w *waiting) pop() *item {
	i := heap.Pop(&w.items).(*item)
	w.bytes -= i.bytes()
	return i
}

// items are a heap.
type items []*item

// Len implements [heap.Interface].
func (s items) Len() int { return len(s) }

// Less implements [heap.Interface].
func (s items) Less(i, j int) bool {
	return s[i].at < s[j].at || s[i].at == s[j].at && s[i].seq < s[j].seq
}

// Swap implements [heap.Interface].
func (s items) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

// Push implements [heap.Interface].
func (s *items) Push(x any) { *s = append(*s, x.(*item)) }

// Pop implements [heap.Interface].
func (s *items) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return x
}
