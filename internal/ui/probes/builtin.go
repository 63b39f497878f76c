package probes

import "github.com/beamscope/beamscope/dtrace"

// A Builtin is a built-in outcome, with the probes that an executable lacks for it.
type Builtin struct {
	dtrace.Builtin
	Unseen  string   // why it cannot be observed, if the reason is not a missing probe; "" otherwise
	Missing []string // missing and refused probes, by their dtrace(1) names
}

// Builtins returns the built-in outcomes, each with the probes that it lacks in the result of
// [List]. unseen contains other reasons why outcomes cannot be observed, by name.
func Builtins(list []Probe, unseen map[string]string) []Builtin {
	there := make(map[string]bool)
	for _, p := range list {
		there[p.Name] = p.Members > 0 && p.Refused == ""
	}
	var out []Builtin
	for _, b := range dtrace.Builtins() {
		line := Builtin{Builtin: b, Unseen: unseen[b.Name]}
		for _, p := range b.Rule.Probes() {
			if !there[p.Name] {
				line.Missing = append(line.Missing, p.DTraceName())
			}
		}
		if len(line.Missing) > 0 {
			line.Unseen = ""
		}
		out = append(out, line)
	}
	return out
}
