package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// equivalent are mutants that change nothing that a test could see. A line of the file
// names one as it is printed, without the number of its line; the lines under it, which
// are indented, say why.
type equivalent map[string]bool // whether there still is such a mutant

func readEquivalent(path string) (equivalent, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	known, last := equivalent{}, ""
	reasons := map[string]bool{}
	for i, line := range strings.Split(string(data), "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "\t"):
			if last == "" {
				return nil, fmt.Errorf("%s:%d: a reason without a mutant", path, i+1)
			}
			reasons[last] = true
		default:
			known[line], last = false, line
		}
	}
	// Mutants one under the other share the reason under the last of them.
	if last != "" && !reasons[last] {
		return nil, fmt.Errorf("%s: no reason for %q", path, last)
	}
	return known, nil
}

func (e equivalent) has(m mutant) bool {
	key := m.file + ": " + m.change()
	if _, ok := e[key]; !ok {
		return false
	}
	e[key] = true
	return true
}

// unused are those of which there is no mutant.
func (e equivalent) unused() []string {
	var all []string
	for key, used := range e {
		if !used {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return all
}
