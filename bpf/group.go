package bpf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
)

// A Group is a part of an outcome's instances in a window.
type Group struct {
	Process uint64 // number of the process, as in [Instance]; 0 if the key is a text, and for the rest
	Text    string // "" for a process, and for the rest
	Rest    bool   // instances without room among the groups, or with an unreadable key

	Successes, Failures, Timeouts uint64
	Total                         int64    // of the delays of successes, nanoseconds
	Amount                        uint64   // as of [Counters]
	Starts                        uint64   // with Accounts, of instances that end in the order of their starts
	Processor                     int64    // with Accounts, of slices that were successes: nanoseconds on a processor
	Dirty                         int64    // nanoseconds on dirty schedulers, on a processor or not
	Delays                        []uint32 // of successes, in the buckets of DelayBuckets
}

// DelayBuckets is the number of buckets for the delays of a [Group]: see delay_bucket of
// group.bpf.h.
const DelayBuckets = len(kernelGroup{}.Delays)

// isText marks a group that is a text: IS_TEXT of group.bpf.h.
const isText = 1 << 63

// textMost is the maximum number of bytes of a text that the programs read: TEXT_MAX of
// group.bpf.h.
const textMost = len(kernelGroupText{}.Text) - 1

// groupsAtOnce is the number of groups that are read at a time.
const groupsAtOnce = 1024

// A groupReader reads groups and remembers their texts.
type groupReader struct {
	keys   []kernelGroupKey
	groups []kernelGroup
	texts  textReader
}

// readGroups adds the groups of window n to its counts, and removes them from the kernel. The
// window has ended, and its plan has these entries.
func (c *Collector) readGroups(n uint64, entries []int) error {
	return c.takeGroups(uint32(n%windows), func(k kernelGroupKey, g Group) {
		number := c.entries[k.Outcome].number
		i := slices.IndexFunc(c.counts, func(counts Counts) bool {
			return counts.Outcome == number && counts.PID == int(k.Pid)
		})
		if i >= 0 && slices.Contains(entries, int(k.Outcome)) {
			c.counts[i].Groups = append(c.counts[i].Groups, g)
		}
	})
}

// clearGroups removes the groups of a row.
func (c *Collector) clearGroups(row uint32) error {
	return c.takeGroups(row, func(kernelGroupKey, Group) {})
}

// takeGroups passes on the groups of a row, and removes them.
func (c *Collector) takeGroups(row uint32, fn func(kernelGroupKey, Group)) error {
	if !c.isGrouped() {
		return nil
	}
	for _, m := range []*ebpf.Map{c.maps.Groups, c.maps.Rests} {
		if err := c.takeGroupsOf(m, row, fn); err != nil {
			return fmt.Errorf("read the groups: %w", err)
		}
	}
	return nil
}

// isGrouped reports whether any outcome is grouped.
func (c *Collector) isGrouped() bool {
	return slices.ContainsFunc(c.entries, func(e entry) bool { return e.used && e.outcome.Group != "" })
}

func (c *Collector) takeGroupsOf(m *ebpf.Map, row uint32, fn func(kernelGroupKey, Group)) error {
	r := &c.groups
	if r.keys == nil {
		r.keys, r.groups = make([]kernelGroupKey, groupsAtOnce), make([]kernelGroup, groupsAtOnce)
	}
	var (
		cursor ebpf.MapBatchCursor
		over   []kernelGroupKey
	)
	for {
		n, err := m.BatchLookup(&cursor, r.keys, r.groups, nil)
		last := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !last {
			return err
		}
		for i, k := range r.keys[:n] {
			if k.Row != row || int(k.Outcome) >= len(c.entries) {
				continue
			}
			over = append(over, k)
			fn(k, c.group(k, &r.groups[i], m == c.maps.Rests))
		}
		if last {
			break
		}
	}
	if len(over) == 0 {
		return nil
	}
	_, err := m.BatchDelete(over, nil)
	return err
}

// group returns a group in its exported form.
func (c *Collector) group(k kernelGroupKey, g *kernelGroup, rest bool) Group {
	out := Group{
		Successes: g.Counts[0],
		Failures:  g.Counts[1],
		Timeouts:  g.Counts[2],
		Total:     int64(g.TotalNs),
		Amount:    g.Amount,
		Starts:    g.Starts,
		Processor: int64(g.CpuNs),
		Dirty:     int64(g.DirtyNs),
		Delays:    slices.Clone(g.Delays[:]),
	}
	switch {
	case rest || k.Group == 0:
		out.Rest = true
	case k.Group&isText == 0:
		out.Process = k.Group
	default:
		out.Text = c.textOf(k.Group)
		out.Rest = out.Text == ""
	}
	return out
}

// textOf returns the text of a group, or "" if it is no longer known.
func (c *Collector) textOf(group uint64) string {
	if function, ok := c.functions[group]; ok {
		return function
	}
	return c.groups.texts.text(group)
}
