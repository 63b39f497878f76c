package snapshot

import (
	"fmt"
	"slices"

	"github.com/beamscope/beamscope/internal/files/recording"
)

// A pending is a snapshot in progress.
type pending struct {
	recording.Snapshot
	name   string // of the file
	until  int64  // time until which it extends, nanoseconds of CLOCK_MONOTONIC
	causes []byte // blocks
	owners []string
	body   body
}

// add adds a cause in a VM of an owner.
func (p *pending) add(c *recording.Cause, owner string) error {
	if !slices.Contains(p.owners, owner) && len(p.owners) < recording.MaxFacts {
		p.owners = append(p.owners, owner)
	}
	if p.Causes == MaxCauses {
		p.Omitted++
		return nil
	}
	var e recording.Encoder
	causes, err := e.AppendCause(p.causes, c)
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	p.causes = causes
	p.Causes++
	return nil
}

// parts returns the parts of the file.
func (p *pending) parts(h *recording.Header) ([][]byte, error) {
	var e recording.Encoder
	header := withOwners(*h, p.owners)
	front, err := e.AppendHeader(nil, &header)
	if err != nil {
		return nil, err
	}
	if front, err = e.AppendSnapshot(front, &p.Snapshot); err != nil {
		return nil, err
	}
	blocks := 2 + p.Causes + p.body.blocks
	end, err := e.AppendEnd(nil, blocks, p.body.batches)
	if err != nil {
		return nil, err
	}
	return [][]byte{front, p.causes, p.body.data, end}, nil
}
