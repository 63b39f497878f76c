package config

import "time"

// Limits of what is kept.
const (
	maxBefore = 1024
	maxAfter  = 10 * time.Minute
	maxKeep   = 100_000
	minSize   = miB
	maxSize   = 1024 * giB
)

func (r *reader) snapshots(v value) (Snapshots, error) {
	s := defaultSnapshots()
	err := r.fields(v, map[string]func(value) error{
		"dir":    func(v value) (err error) { s.Dir, err = r.name(v); return err },
		"before": func(v value) (err error) { s.Before, err = r.integer(v, 0, maxBefore); return err },
		"after":  func(v value) (err error) { s.After, err = r.duration(v, 0, maxAfter); return err },
		"keep":   func(v value) (err error) { s.Keep, err = r.integer(v, 1, maxKeep); return err },
		"size":   func(v value) (err error) { s.Size, err = r.size(v); return err },
	})
	return s, err
}

func (r *reader) size(v value) (int64, error) {
	n, ok := parseSize(v.node.Value)
	if !ok || n < minSize || n > maxSize {
		return 0, r.errorf(v, "%s is not a size from %s to %s: write a whole number and a unit (KiB, MiB, GiB), as in 100MiB",
			shown(v.node), formatSize(minSize), formatSize(maxSize))
	}
	return n, nil
}
