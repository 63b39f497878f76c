package probes

import (
	"encoding/json"
	"io"

	"github.com/beamscope/beamscope/dtrace"
)

// JSON writes a listing for machines, one object a line for each probe and then for
// each built-in outcome. A family has no sites there: list its members to get them.
func JSON(w io.Writer, l Listing) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // pids are in angle brackets
	for _, p := range l.Probes {
		if err := encoder.Encode(l.line(p)); err != nil {
			return err
		}
	}
	for _, b := range Builtins(l.Probes) {
		if err := encoder.Encode(l.builtin(b)); err != nil {
			return err
		}
	}
	return nil
}

// A line is a probe as JSON has it.
type line struct {
	Probe    string     `json:"probe"`    // process-spawn
	Name     string     `json:"name"`     // process__spawn
	Exe      string     `json:"exe"`      // for people
	Release  *int       `json:"release"`  // of Erlang/OTP; null: not known
	PIDs     []int      `json:"pids"`     // none where the executable was only read
	Known    bool       `json:"known"`    // to the catalogue
	State    string     `json:"state"`    //
	Hot      string     `json:"hot"`      //
	Attached *bool      `json:"attached"` // null: unknown
	Family   *family    `json:"family"`   // null: a single probe
	Function *function  `json:"function"` // null: a probe of the provider
	Args     []argument `json:"args"`     //
	Subject  string     `json:"subject"`  // argument: the process that does it
	Sites    []site     `json:"sites"`    //
	Doc      string     `json:"doc"`      //
	Trace    string     `json:"trace"`    // message of erlang:trace/3 that tells the same
	Refused  string     `json:"refused"`  // why nothing may be attached to it; "" where it may
}

// A function stands in for a probe.
type function struct {
	Symbol string `json:"symbol"`
	Return bool   `json:"return"` // where it returns, and not where it is entered
}

type family struct {
	Probes   int `json:"probes"`   // that the executable has
	Sites    int `json:"sites"`    //
	Attached int `json:"attached"` // probes for certain
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

// release returns the release, nil where it is not known.
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

// A builtinLine is a built-in outcome as JSON has it.
type builtinLine struct {
	Builtin  string    `json:"builtin"`
	Exe      string    `json:"exe"`
	PIDs     []int     `json:"pids"`
	Possible *bool     `json:"possible"` // with this executable; null: up to the kernel
	Missing  []string  `json:"missing"`  // probes
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
}

func (l Listing) builtin(b Builtin) builtinLine {
	possible := len(b.Missing) == 0
	line := builtinLine{
		Builtin:  b.Name,
		Exe:      l.Exe,
		PIDs:     append([]int{}, l.PIDs...),
		Possible: &possible,
		Missing:  append([]string{}, b.Missing...),
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

// boolean is null where it is unknown.
func (a Attached) boolean() *bool {
	if a == Unknown {
		return nil
	}
	yes := a == Yes
	return &yes
}
