package bpf

import "slices"

// A region is a number of successive cells of a stripe.
type region struct{ first, size int }

func (r region) end() int { return r.first + r.size }

// An arena allocates and frees disjoint regions.
type arena struct {
	free []region // sorted; no two are adjacent
}

func newArena(r region) arena { return arena{free: []region{r}} }

// take allocates the first free region that is large enough. It returns false if there is none.
func (a *arena) take(size int) (region, bool) {
	i := slices.IndexFunc(a.free, func(r region) bool { return r.size >= size })
	if i < 0 {
		return region{}, false
	}
	taken := region{a.free[i].first, size}
	a.free[i].first += size
	a.free[i].size -= size
	if a.free[i].size == 0 {
		a.free = slices.Delete(a.free, i, i+1)
	}
	return taken, true
}

// give frees an allocated region.
func (a *arena) give(r region) {
	i := slices.IndexFunc(a.free, func(f region) bool { return f.first > r.first })
	if i < 0 {
		i = len(a.free)
	}
	if i < len(a.free) && r.end() == a.free[i].first {
		r.size += a.free[i].size
		a.free = slices.Delete(a.free, i, i+1)
	}
	if i > 0 && a.free[i-1].end() == r.first {
		a.free[i-1].size += r.size
		return
	}
	a.free = slices.Insert(a.free, i, r)
}
