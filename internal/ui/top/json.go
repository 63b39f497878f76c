package top

import (
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A JSON printer writes each table row and notice as one JSON object on a line.
type JSON struct {
	enc   *json.Encoder
	limit int
}

// NewJSON returns a printer on w. It prints at most limit rows of each table, or all if limit is
// 0.
func NewJSON(w io.Writer, limit int) *JSON {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &JSON{enc, limit}
}

// The lines by type.
type (
	jsonRow struct {
		Type string `json:"type"` // row
		jsonHead
		VM   jsonVM  `json:"vm"`
		Key  string  `json:"key"`
		Name *string `json:"name"`
		jsonKinds
	}
	jsonOthers struct {
		Type string `json:"type"` // others
		jsonHead
		jsonKinds
	}
	jsonTotal struct {
		Type string `json:"type"` // total
		jsonHead
		VMs    []jsonVM `json:"vms"`
		Unseen []jsonVM `json:"unseen_vms,omitempty"`
		Rows   int      `json:"rows"`
		jsonKinds
		jsonState
	}
	jsonNotice struct {
		Type string    `json:"type"` // notice
		Time time.Time `json:"time"`
		Text string    `json:"text"`
	}
)

// A jsonHead contains the fields that identify a line.
type jsonHead struct {
	Time   time.Time  `json:"time"`
	Window jsonWindow `json:"window"`
	By     string     `json:"by"`
}

type jsonWindow struct {
	From int64 `json:"from_ns"`
	To   int64 `json:"to_ns"`
}

type jsonVM struct {
	PID  int    `json:"pid"`
	Node string `json:"node"`
}

// jsonKinds contains the figures of a line; null means unknown.
type jsonKinds struct {
	Run     *jsonFigures `json:"run"`
	GC      *jsonFigures `json:"gc"`
	Mailbox *jsonFigures `json:"mailbox"`
	Seen    *jsonSeen    `json:"memory"`
}

// jsonSeen contains the data from the VM's memory. null means unknown, or that the memory was not
// read in the window.
type jsonSeen struct {
	Waiting    int64    `json:"waiting"`
	Unfetched  int64    `json:"unfetched"`
	AtLeast    bool     `json:"at_least"`
	Growing    bool     `json:"growing"`
	Oldest     *float64 `json:"oldest_at_least_s"`
	Before     bool     `json:"oldest_before_observation"`
	Heaps      *int64   `json:"heap_bytes"`
	Reductions *float64 `json:"reductions_per_s"`
	Function   *string  `json:"function"`
}

type jsonFigures struct {
	N         uint64    `json:"n"`
	Rate      float64   `json:"per_s"`
	Share     float64   `json:"time_share"`
	Timeout   uint64    `json:"timeout"`
	Processor *float64  `json:"processor_share,omitempty"`
	Dirty     *float64  `json:"dirty_share,omitempty"`
	Words     *float64  `json:"reclaimed_words_per_s,omitempty"`
	Inferred  *bool     `json:"inferred,omitempty"`
	AtLeast   *bool     `json:"at_least,omitempty"`
	Quantiles quantiles `json:"quantiles_s"`
}

// quantiles are in seconds. null means that there are no instances, or that the quantile lies in
// the intangible mass.
type quantiles struct {
	P50 *float64 `json:"0.5"`
	P99 *float64 `json:"0.99"`
}

// A jsonState contains the data of a window other than its figures.
type jsonState struct {
	Observed []string `json:"observed"`
	GivenUp  []string `json:"given_up"`
	Why      string   `json:"given_up_why,omitempty"`
	Lost     uint64   `json:"lost"`
	Partial  bool     `json:"unobserved,omitempty"`
	Used     *float64 `json:"os_processor_share"`
	Cores    *int     `json:"os_processors"`
	Cost     jsonCost `json:"cost"`
}

type jsonCost struct {
	Rate     float64  `json:"events_per_s"`
	PerEvent *float64 `json:"per_event_s"`
	VM       *float64 `json:"vm_share"`
	Own      float64  `json:"own_share"`
}

// Table writes the lines of a table: its rows, the instances without room among them if there are
// any, and the total.
func (p *JSON) Table(t *Table) error {
	rows := t.Rows
	if p.limit > 0 {
		rows = rows[:min(len(rows), p.limit)]
	}
	head := jsonHead{t.Time, jsonWindow{t.Window.From, t.Window.To}, t.By}
	for i := range rows {
		r := &rows[i]
		line := jsonRow{"row", head, jsonVM{r.VM.PID, r.VM.Node}, r.Key, nil, kindsOf(&r.Cells)}
		if r.Name != "" {
			line.Name = &r.Name
		}
		if err := p.enc.Encode(line); err != nil {
			return err
		}
	}
	if t.hasOthers() {
		if err := p.enc.Encode(jsonOthers{"others", head, kindsOf(&t.Others)}); err != nil {
			return err
		}
	}
	return p.enc.Encode(jsonTotal{"total", head, jsonVMs(t.VMs), jsonVMs(t.Unseen), t.All, kindsOf(&t.Total), stateOf(t)})
}

func jsonVMs(vms []outcome.VM) []jsonVM {
	all := []jsonVM{}
	for _, vm := range vms {
		all = append(all, jsonVM{vm.PID, vm.Node})
	}
	return all
}

// Notice writes a notice for people.
func (p *JSON) Notice(at time.Time, text string) error {
	return p.enc.Encode(jsonNotice{"notice", at, text})
}

func kindsOf(of *Cells) jsonKinds {
	f := &of.Kinds
	j := jsonKinds{Run: figuresFor(&f[Run]), GC: figuresFor(&f[GC]), Mailbox: figuresFor(&f[Mailbox]), Seen: seenFor(&of.Seen)}
	if j.Run != nil {
		j.Run.Processor, j.Run.Dirty = figures.Number(f[Run].Processor), figures.Number(f[Run].Dirty)
	}
	if j.GC != nil {
		j.GC.Words = &f[GC].Amount
	}
	if j.Mailbox != nil {
		j.Mailbox.Inferred, j.Mailbox.AtLeast = &f[Mailbox].Inferred, &f[Mailbox].AtLeast
	}
	return j
}

func figuresFor(f *Figures) *jsonFigures {
	if !f.Known {
		return nil
	}
	return &jsonFigures{
		N: f.Instances, Rate: f.PerSecond, Share: f.Share, Timeout: f.Timeouts,
		Quantiles: quantiles{secondsOf(f.P50), secondsOf(f.P99)},
	}
}

func seenFor(s *Seen) *jsonSeen {
	if !s.Known || s.Stale {
		return nil
	}
	j := &jsonSeen{Waiting: s.Waiting, Unfetched: s.Unfetched, AtLeast: s.AtLeast, Growing: s.Growing, Before: s.Before}
	if s.Aged {
		j.Oldest = figures.Seconds(s.Oldest)
	}
	if s.Memory >= 0 {
		j.Heaps = &s.Memory
	}
	if s.Rated {
		j.Reductions = &s.Reductions
	}
	if s.Function != "" {
		j.Function = &s.Function
	}
	return j
}

func secondsOf(q Quantile) *float64 {
	if !q.Some || q.Beyond {
		return nil
	}
	return figures.Seconds(q.AtMost)
}

func stateOf(t *Table) jsonState {
	c := jsonState{Observed: []string{}, GivenUp: []string{}, Why: t.GaveUp, Partial: t.Partial}
	for k := range kinds {
		if t.Level.Has(k) {
			c.Observed = append(c.Observed, k.String())
		} else {
			c.GivenUp = append(c.GivenUp, k.String())
		}
		c.Lost += t.Lost[k].Total()
	}
	slices.Reverse(c.GivenUp) // in the order in which they were given up
	if t.Used.Known {
		c.Used, c.Cores = &t.Used.Share, &t.Used.Processors
	}
	c.Cost = costOf(t.Cost, t.Duration)
	return c
}

func costOf(c outcome.Cost, window time.Duration) jsonCost {
	j := jsonCost{Rate: float64(c.Events) / window.Seconds(), Own: float64(c.Collector) / float64(window)}
	if c.PerEvent > 0 {
		share := c.Share(window)
		j.PerEvent, j.VM = figures.Seconds(c.PerEvent), &share
	}
	return j
}
