package script

import "container/heap"

// An item is a record that waits to be processed in order.
type item struct {
	record
	at  int64  // nanoseconds of our CLOCK_MONOTONIC
	seq uint64 // order of arrival, for items with the same time
}

// A waiting sorts records by time.
type waiting struct {
	items items
	seq   uint64
	bytes int // total length of the texts
}

func (w *waiting) len() int { return len(w.items) }

// first returns the earliest time.
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
