package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// An equivalent lists mutants that do not change behaviour. A line of the file is a mutant as it is
// printed, without its line number. The indented lines below it give the reason.
type equivalent map[string]bool // whether such a mutant still exists

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
	// Consecutive mutants share the reason below the last of them.
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

// unused returns the entries without a mutant.
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
