package probes

import (
	"encoding/json"
	"io"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/engine/seen"
)

// JSON writes a listing for machines, one object a line for each probe, then for each event of spans
// that a VM records in its memory, or that is not seen because the VM has no probes, and then for each built-in outcome. A family has no sites there: list its members to get them.
func JSON(w io.Writer, l Listing) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // pids are in angle brackets
	for _, p := range l.Probes {
		if err := encoder.Encode(l.line(p)); err != nil {
			return err
		}
	}
	for _, e := range l.events() {
		if err := encoder.Encode(e); err != nil {
			return err
		}
	}
	for _, b := range Builtins(l.Probes, l.Unseen) {
		if err := encoder.Encode(l.builtin(b)); err != nil {
			return err
		}
	}
	return nil
}

// A line is a probe in JSON.
type line struct {
	Probe    string     `json:"probe"`    // process-spawn
	Name     string     `json:"name"`     // process__spawn
	Exe      string     `json:"exe"`      // for people
	Release  *int       `json:"release"`  // of Erlang/OTP; null: unknown
	PIDs     []int      `json:"pids"`     // none if the executable was only read
	Known    bool       `json:"known"`    // according to the catalogue
	State    string     `json:"state"`    //
	Hot      string     `json:"hot"`      //
	Attached *bool      `json:"attached"` // null: unknown
	Family   *family    `json:"family"`   // null: a single probe
	Function *function  `json:"function"` // null: a probe of the provider
	Args     []argument `json:"args"`     //
	Subject  string     `json:"subject"`  // argument with the acting process
	Sites    []site     `json:"sites"`    //
	Doc      string     `json:"doc"`      //
	Trace    string     `json:"trace"`    // message of erlang:trace/3 that tells the same
	Refused  string     `json:"refused"`  // why nothing may be attached to it; "" where it may
	Seen     sight      `json:"seen"`
}

// An eventLine is an event of no probe as JSON has it.
type eventLine struct {
	Event string `json:"event"`
	Exe   string `json:"exe"`
	PIDs  []int  `json:"pids"` // in which it is seen
	Seen  sight  `json:"seen"`
}

// events returns the events of no probe.
func (l Listing) events() (lines []eventLine) {
	s := sight{By: seen.Ring, Functions: []string{}}
	switch {
	case len(l.Recording) > 0:
	case l.NoProbes != "":
		s.By, s.Why = "", l.noSpans()
	default:
		return nil
	}
	for _, event := range spanEvents() {
		lines = append(lines, eventLine{event, l.Exe, append([]int{}, l.Recording...), s})
	}
	return lines
}

// A sight says how events are seen.
type sight struct {
	By        seen.Way `json:"by"`        // "" where they are not seen or that is not known
	Functions []string `json:"functions"` // that stand in for the probe
	Why       string   `json:"why"`       // they are not seen
	Differs   string   `json:"differs"`   // what the functions tell otherwise than the probe
}

// newSight returns how the events of a probe are seen.
func newSight(p Probe) sight {
	out := sight{Functions: append([]string{}, p.Seen.Functions...), Why: p.Seen.Unseen}
	if p.Members > 0 {
		out.By = p.Seen.Way()
	}
	if out.By == seen.StandIn {
		out.Differs = p.StandIn.Doc
	}
	return out
}

// A function stands in for a probe.
type function struct {
	Symbol string `json:"symbol"`
	Return bool   `json:"return"` // at its return instead of its entry
}

type family struct {
	Probes   int `json:"probes"`   // of the executable
	Sites    int `json:"sites"`    //
	Attached int `json:"attached"` // probes that certainly exist
}

type argument struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Unit string `json:"unit"`
	Doc  string `json:"doc"`
}

type site struct {
	Offset    uint64   `json:"offset"`    // bytes from the start of the file
	Semaphore uint64   `json:"semaphore"` // the same; 0: none
	Args      []string `json:"args"`      // specifications, as in the note
	Attached  *bool    `json:"attached"`
}

// release returns the release, or nil if it is unknown.
func (l Listing) release() *int {
	if l.Release == 0 {
		return nil
	}
	return &l.Release
}

func (l Listing) line(p Probe) line {
	out := line{
		Probe:    p.DTraceName(),
		Name:     p.Name,
		Exe:      l.Exe,
		Release:  l.release(),
		PIDs:     append([]int{}, l.PIDs...),
		Known:    p.Known,
		State:    p.State.String(),
		Hot:      p.Hot.String(),
		Attached: p.Attached.boolean(),
		Args:     argumentsJSON(p.Args),
		Subject:  p.Subject,
		Sites:    []site{},
		Doc:      p.Doc,
		Trace:    p.Trace,
		Refused:  p.Refused,
		Seen:     newSight(p),
	}
	if p.Function != nil {
		out.Function = &function{Symbol: p.Function.Symbol, Return: p.Function.Return}
	}
	if p.Family > 0 {
		out.Family = &family{Probes: p.Members, Sites: len(p.Sites), Attached: p.Taps}
		return out
	}
	for _, s := range p.Sites {
		specs := []string{}
		for _, a := range s.Args {
			specs = append(specs, a.Spec)
		}
		out.Sites = append(out.Sites, site{Offset: s.Offset, Semaphore: s.Semaphore, Args: specs, Attached: s.Attached.boolean()})
	}
	return out
}

// A builtinLine is a built-in outcome in JSON.
type builtinLine struct {
	Builtin  string    `json:"builtin"`
	Exe      string    `json:"exe"`
	PIDs     []int     `json:"pids"`
	Possible *bool     `json:"possible"` // with this executable; null: up to the kernel
	Missing  []string  `json:"missing"`  // probes
	Unseen   string    `json:"unseen"`   // why it is impossible, if no probe is missing
	Start    string    `json:"start"`    // expressions
	Arm      string    `json:"arm"`
	Via      string    `json:"via"`
	Sync     string    `json:"sync"`
	End      string    `json:"end"`
	Key      [2]string `json:"key"` // of start and end
	Pairing  string    `json:"pairing"`
	DMax     float64   `json:"dmax_s"`
	Bins     int       `json:"bins"`
	Starts   string    `json:"starts"`
	Ends     string    `json:"ends"`
	Blind    string    `json:"blind"`
	Cost     string    `json:"cost"`
	Seen     *sights   `json:"seen"` // null: unknown
}

// sights says how the events of an outcome are seen, as `run --json` does.
type sights struct {
	By  []seen.Way `json:"by"`            // none if they are not seen
	Why string     `json:"why,omitempty"` // they are not seen
}

func (l Listing) builtin(b Builtin) builtinLine {
	possible := len(b.Missing) == 0 && b.Unseen == ""
	line := builtinLine{
		Builtin:  b.Name,
		Exe:      l.Exe,
		PIDs:     append([]int{}, l.PIDs...),
		Possible: &possible,
		Missing:  append([]string{}, b.Missing...),
		Unseen:   b.Unseen,
		Start:    b.Rule.Start.String(),
		Arm:      b.Rule.Arm.String(),
		Via:      b.Rule.Via.String(),
		Sync:     b.Rule.Sync.String(),
		End:      b.Rule.End.String(),
		Key:      [2]string{b.Rule.Key.Start, b.Rule.Key.End},
		Pairing:  b.Rule.Pairing.String(),
		DMax:     b.DMax.Seconds(),
		Bins:     b.Bins,
		Starts:   b.Starts,
		Ends:     b.Ends,
		Blind:    b.Blind,
		Cost:     b.Cost,
	}
	if s, known := l.Sights[b.Name]; known {
		line.Seen = &sights{By: append([]seen.Way{}, s.By...), Why: s.Why}
	}
	if b.Rule.RunQueue {
		line.Possible, line.Pairing = nil, ""
	}
	return line
}

func argumentsJSON(args []dtrace.Arg) []argument {
	out := []argument{}
	for _, a := range args {
		out = append(out, argument{Name: a.Name, Type: a.Type.String(), Unit: a.Type.Unit(), Doc: a.Doc})
	}
	return out
}

// boolean returns nil for unknown.
func (a Attached) boolean() *bool {
	if a == Unknown {
		return nil
	}
	yes := a == Yes
	return &yes
}
