package probes

import "github.com/beamscope/beamscope/dtrace"

// A Builtin is a built-in outcome, with what an executable lacks for it.
type Builtin struct {
	dtrace.Builtin
	Missing []string // probes, by the names that dtrace(1) has for them; those that are refused too
}

// Builtins returns the built-in outcomes and what is missing for each among the probes
// that [List] returned.
func Builtins(list []Probe) []Builtin {
	there := make(map[string]bool)
	for _, p := range list {
		there[p.Name] = p.Members > 0 && p.Refused == ""
	}
	var out []Builtin
	for _, b := range dtrace.Builtins() {
		line := Builtin{Builtin: b}
		for _, p := range b.Rule.Probes() {
			if !there[p.Name] {
				line.Missing = append(line.Missing, p.DTraceName())
			}
		}
		out = append(out, line)
	}
	return out
}
