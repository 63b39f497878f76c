package pairing

import (
	"iter"
	"slices"
)

// A queue is first in, first out. The zero queue is empty.
type queue[T any] struct {
	items []T
	gone  int // number of removed items, at the beginning of items
}

func (q *queue[T]) len() int { return len(q.items) - q.gone }

func (q *queue[T]) head() T { return q.items[q.gone] }

func (q *queue[T]) push(item T) { q.items = append(q.items, item) }

func (q *queue[T]) pop() T {
	var none T
	item := q.items[q.gone]
	q.items[q.gone] = none
	q.gone++
	if q.gone > len(q.items)/2 {
		q.shrink()
	}
	return item
}

// shrink moves the remaining items to the beginning.
func (q *queue[T]) shrink() {
	n := copy(q.items, q.items[q.gone:])
	clear(q.items[n:])
	q.items, q.gone = q.items[:n], 0
}

func (q *queue[T]) all() iter.Seq[T] { return slices.Values(q.items[q.gone:]) }

// filter keeps the items for which wanted is true.
func (q *queue[T]) filter(wanted func(T) bool) {
	q.shrink()
	q.items = slices.DeleteFunc(q.items, func(item T) bool { return !wanted(item) })
}
