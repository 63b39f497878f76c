package vmsource

import "github.com/beamscope/beamscope/internal/engine/outcome"

// A ranking ranks instances among those of their outcome and VM.
type ranking map[rankingKey]int

type rankingKey struct {
	outcome string
	vm      outcome.VM
}

// next returns the rank of the next instance, from 0 on. The worst instances must come first.
func (r ranking) next(i *outcome.Instance) int {
	key := rankingKey{i.Outcome, i.VM}
	rank := r[key]
	r[key]++
	return rank
}
