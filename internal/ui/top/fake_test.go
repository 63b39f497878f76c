package top

import (
	"fmt"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// shop and store are VMs.
var (
	shop  = outcome.VM{PID: 1801, Node: "shop@host"}
	store = outcome.VM{PID: 1802}
)

// pid returns the process with a number.
func pid(n uint64) outcome.PID { return outcome.PID(n) }

// spread returns n delays of about the same length.
func spread(n int, about time.Duration) (d outcome.Delays, total time.Duration) {
	d = make(outcome.Delays, outcome.DelayBuckets)
	for i := range n {
		x := about * time.Duration(50+i*100/n) / 100
		d[outcome.Bucket(x)]++
		total += x
	}
	return d, total
}

// A load is the activity of a process in a window.
type load struct {
	key                         string
	pid                         uint64
	name                        string
	gcs, slices, messages, over int
	pause, slice, wait          time.Duration
	words                       uint64
	dirty                       int   // number of slices out of ten
	waiting, more               int64 // messages that wait, and messages added in each further window
}

func (l load) group(k Kind) outcome.Group {
	g := outcome.Group{Key: l.key, Process: pid(l.pid), Name: l.name}
	n, about := l.gcs, l.pause
	switch k {
	case Run:
		n, about = l.slices, l.slice
	case Mailbox:
		n, about = l.messages, l.wait
		g.Timeouts = uint64(l.over)
	case GC:
		g.Amount = l.words * uint64(n)
	}
	g.Successes = uint64(n)
	g.Delays, g.Total = spread(n, about)
	switch k {
	case Run:
		g.Processor, g.Dirty = g.Total*9/10, g.Total*time.Duration(l.dirty)/10
	case Mailbox:
		g.Starts = uint64(n)
	}
	return g
}

// loads returns the activity of a small shop in window n.
func loads(n int) []load {
	wave := 1 + n%7
	all := []load{
		{key: "<0.44.0>", pid: 44, name: "order_writer", gcs: 20, slices: 900, messages: 700 * wave, over: 3, pause: 300 * time.Microsecond, slice: 600 * time.Microsecond, wait: 900 * time.Millisecond, words: 12000, waiting: 40},
		{key: "<0.102.0>", pid: 102, name: "shop_cart:init/1", gcs: 400, slices: 300 * wave, messages: 40, pause: time.Millisecond, slice: 200 * time.Microsecond, wait: 30 * time.Microsecond, words: 250000, dirty: 3},
		{key: "<0.103.0>", pid: 103, name: "a[red]_name", slices: 3, slice: 15 * time.Microsecond},
	}
	for i := range 40 {
		all = append(all, load{
			key: fmt.Sprintf("<0.%d.0>", 200+i), pid: uint64(200 + i), gcs: i % 3, slices: 10 + i, messages: 5 * i, pause: 20 * time.Microsecond,
			slice: 40 * time.Microsecond, wait: time.Duration(1+i) * 100 * time.Microsecond, words: 300,
		})
	}
	all[len(all)-1].name = "'Elixir.MyApp.Worker':init/1"
	return all
}

// surveyAt returns the data in the memory of VMs at the beginning of window n of a plan.
func surveyAt(p outcome.Plan, n int, loads []load, vms ...outcome.VM) *Survey {
	at := p.At(uint64(n)).From
	s := &Survey{From: at, To: at + 1000, By: p.Specs[0].Group, Rows: make(map[ID]Seen), Names: make(map[ID]name)}
	for _, vm := range vms {
		for _, l := range loads {
			seen := Seen{
				Known: true, Processes: 1, Waiting: l.waiting + int64(n)*l.more, Memory: 34816 * int64(l.pid), Rated: true, Reductions: 100 * float64(l.slices),
				Function: "gen_server:loop/7", Settled: true, Messages: true,
			}
			id := ID{vm, l.key}
			s.Rows[id] = seen
			s.Total.add(&seen)
			if seen.Waiting > 0 {
				s.Names[id] = name{pid(l.pid), l.name}
			}
		}
	}
	return s
}

// see feeds a model with window n of a plan, including a survey.
func see(m *Model, p outcome.Plan, n int, loads []load, vms ...outcome.VM) error {
	m.Survey(surveyAt(p, n, loads, vms...))
	m.Use(Used{Known: true, Share: 0.732, Processors: 8})
	_, err := m.Add(batch(p, n, vms...))
	return err
}

// batch returns a source's batch of window n of a plan.
func batch(p outcome.Plan, n int, vms ...outcome.VM) *outcome.Batch {
	w := p.At(uint64(n))
	b := &outcome.Batch{
		Window: w, Time: time.Unix(1_800_000_000, 0).Add(time.Duration(n+1) * p.Window).UTC(),
		Cost: outcome.Cost{Events: 30_000, PerEvent: 1500 * time.Nanosecond, Collector: 9 * time.Millisecond},
	}
	for _, s := range p.Specs {
		k, _ := kindOf(s.Name)
		for _, vm := range vms {
			b.Counts = append(b.Counts, counts(k, vm, loads(n)))
		}
	}
	return b
}

func counts(k Kind, vm outcome.VM, loads []load) outcome.Counts {
	c := outcome.Counts{Outcome: k.String(), VM: vm}
	for _, l := range loads {
		if g := l.group(k); g.Successes+g.Timeouts > 0 {
			c.Groups = append(c.Groups, g)
			c.Successes += g.Successes
			c.Timeouts += g.Timeouts
			c.Amount += g.Amount
		}
	}
	if k == Mailbox {
		c.Inferred = c.Successes
	}
	return c
}

// plan returns the plan of a level with windows of one second.
func plan(l Level, by string) outcome.Plan {
	s, err := NewSystem(l, by, time.Second)
	if err != nil {
		panic(err)
	}
	return s.Plan(0)
}
