package snapshot

import (
	"slices"
	"strings"

	"github.com/beamscope/beamscope/internal/files/recording"
)

// ownerFact is the name of the facts in a snapshot's header that name its owners.
const ownerFact = "owner"

// withOwners returns the header of a snapshot that has these owners. If there is no room for all of
// them, it leaves some out.
func withOwners(h recording.Header, owners []string) recording.Header {
	room := max(0, recording.MaxFacts-len(h.Facts))
	h.Facts = slices.Clone(h.Facts)
	for _, owner := range owners[:min(room, len(owners))] {
		h.Facts = append(h.Facts, recording.Fact{Name: ownerFact, Text: owner})
	}
	return h
}

// ownersOf returns the owners of the snapshot with a header. A snapshot without owners belongs to "",
// like all others without.
func ownersOf(h recording.Header) (owners []string) {
	for _, f := range h.Facts {
		if f.Name == ownerFact && !slices.Contains(owners, f.Text) {
			owners = append(owners, f.Text)
		}
	}
	if len(owners) == 0 {
		return []string{""}
	}
	return owners
}

// A lot is snapshots that have the same owners, the oldest first.
type lot struct {
	owners []string
	files  []found
}

// An eviction decides which snapshots are deleted first: the oldest of the owner that has the most.
// A snapshot of several owners counts for the one that has the fewest. So an owner that has many
// displaces no snapshots of those that have few.
type eviction struct {
	lots []*lot
	has  map[string]int // number of snapshots of each owner
}

// newEviction returns the eviction from a folder with these snapshots, the oldest first. It never
// evicts the one with the path keep.
func newEviction(all []found, keep string) *eviction {
	e := &eviction{has: make(map[string]int)}
	lots := make(map[string]*lot)
	for _, file := range all {
		for _, owner := range file.owners {
			e.has[owner]++
		}
		if file.path == keep {
			continue
		}
		key := strings.Join(file.owners, "\x00")
		if lots[key] == nil {
			lots[key] = &lot{owners: file.owners}
			e.lots = append(e.lots, lots[key])
		}
		lots[key].files = append(lots[key].files, file)
	}
	return e
}

// next returns the snapshot that is deleted next, or false if there is none.
func (e *eviction) next() (found, bool) {
	e.lots = slices.DeleteFunc(e.lots, func(l *lot) bool { return len(l.files) == 0 })
	if len(e.lots) == 0 {
		return found{}, false
	}
	from := slices.MaxFunc(e.lots, func(a, b *lot) int {
		if n := e.fewest(a) - e.fewest(b); n != 0 {
			return n
		}
		return strings.Compare(b.files[0].path, a.files[0].path)
	})
	file := from.files[0]
	from.files = from.files[1:]
	for _, owner := range file.owners {
		e.has[owner]--
	}
	return file, true
}

// fewest returns the number of snapshots of the owner of a lot that has the fewest.
func (e *eviction) fewest(l *lot) int {
	n := e.has[l.owners[0]]
	for _, owner := range l.owners[1:] {
		n = min(n, e.has[owner])
	}
	return n
}
