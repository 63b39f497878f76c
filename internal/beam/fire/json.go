package fire

import (
	"encoding/json"
	"io"
)

// JSON writes a report for machines, one object a line: one for each probe, one for each failed
// scenario, then the conclusion.
func JSON(w io.Writer, r Report) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, p := range r.Probes {
		if err := encoder.Encode(p.line()); err != nil {
			return err
		}
	}
	for _, f := range r.Failed {
		if err := encoder.Encode(failureLine{f.Scenario, f.Err.Error()}); err != nil {
			return err
		}
	}
	return encoder.Encode(resultLine{
		Exe: r.Exe, OTP: r.Version, Flavour: string(r.Flavour),
		Agrees: len(r.Wrong()) == 0, Complete: len(r.Failed) == 0,
	})
}

// A probeLine is a probe in JSON.
type probeLine struct {
	Probe     string      `json:"probe"`     // process-spawn
	Name      string      `json:"name"`      // process__spawn
	Catalogue string      `json:"catalogue"` // "" if the catalogue lacks the probe
	Found     string      `json:"found"`     //
	Members   int         `json:"members"`   // of a family in the executable; 1 for other probes, 0 if it is not in the executable
	Hits      uint64      `json:"hits"`      // in total
	Checks    []checkLine `json:"checks"`    //
	Why       string      `json:"why"`       // why it was not tried or not attached to
	Wrong     string      `json:"wrong"`     // error in the catalogue; "" if the catalogue and the test agree
}

type checkLine struct {
	Scenario string `json:"scenario"`
	Want     uint64 `json:"want"`
	Exact    bool   `json:"exact"` // otherwise Want is a minimum
	Got      uint64 `json:"got"`
	OK       bool   `json:"ok"`
}

type failureLine struct {
	Scenario string `json:"scenario"`
	Error    string `json:"error"`
}

type resultLine struct {
	Exe      string `json:"exe"`
	OTP      string `json:"otp"`
	Flavour  string `json:"flavour"`
	Agrees   bool   `json:"agrees"`
	Complete bool   `json:"complete"` // all scenarios were completed
}

func (p Probe) line() probeLine {
	out := probeLine{
		Probe: p.DTraceName(), Name: p.Name, Found: p.Found.String(), Members: p.Members,
		Hits: p.Hits, Checks: []checkLine{}, Why: p.Why, Wrong: p.Wrong,
	}
	if p.Known {
		out.Catalogue = p.State.String()
	}
	if p.Found == Dangerous {
		out.Why = p.Refused
	}
	for _, c := range p.Checks {
		out.Checks = append(out.Checks, checkLine{c.Scenario, c.Want, c.Exact, c.Got, c.OK()})
	}
	return out
}
