package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/files/recording"
)

// Errors of List, Find and Open.
var (
	ErrNotFound    = errors.New("no such snapshot")
	ErrNotSnapshot = errors.New("a recording that is not a snapshot")
)

// An Info describes a snapshot, as far as that is possible without a replay.
type Info struct {
	Number int    // 1 for the newest one
	Path   string // of the file
	Size   int64  // in bytes
	Time   time.Time

	recording.Snapshot
	Causes []recording.Cause // the first one triggered it
	After  uint64            // windows after the one that triggered it

	// Err describes the damage of the file. It wraps an error of the package recording or
	// ErrNotSnapshot. The other fields contain the data before the damage.
	Err error
}

// List returns the snapshots in a folder, the newest first, including damaged ones. A folder that
// does not exist has none.
func List(dir string) ([]Info, error) {
	files, err := find(dir)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	slices.Reverse(files)
	var infos []Info
	for i, file := range files {
		info := Info{Number: i + 1, Path: file.path, Size: file.size, Time: timeOf(filepath.Base(file.path))}
		info.Err = info.read()
		infos = append(infos, info)
	}
	return infos, nil
}

// read reads the whole snapshot.
func (i *Info) read() error {
	r, err := Open(context.Background(), i.Path) // find has checked that it is a regular file
	if err != nil {
		return err
	}
	defer r.Close()
	i.Snapshot, i.Causes = r.Snapshot, r.Causes
	var batches uint64
	for {
		entry, err := r.Next()
		if _, ok := entry.(*outcome.Batch); ok {
			batches++
			i.After = batches - min(batches, i.Trigger()+1)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Find returns the path of the snapshot with a number, 1 for the newest, or with a name that
// begins with id. Errors wrap [ErrNotFound].
func Find(dir, id string) (path string, err error) {
	files, err := find(dir)
	if err != nil {
		return "", fmt.Errorf("find snapshot: %w", err)
	}
	// Names begin with a date of 8 digits.
	if n, err := strconv.Atoi(id); err == nil && len(id) < 8 {
		if len(files) == 0 {
			return "", fmt.Errorf("%w: there are none in %s", ErrNotFound, dir)
		}
		if n < 1 || n > len(files) {
			return "", fmt.Errorf("%w: number %d of %d in %s", ErrNotFound, n, len(files), dir)
		}
		return files[len(files)-n].path, nil
	}
	var matches []string
	for _, file := range files {
		switch name := filepath.Base(file.path); {
		case name == id:
			return file.path, nil
		case strings.HasPrefix(name, id) && id != "":
			matches = append(matches, file.path)
		}
	}
	switch len(matches) {
	case 1:
		return matches[0], nil
	case 0:
		return "", fmt.Errorf("%w: %q in %s", ErrNotFound, id, dir)
	}
	return "", fmt.Errorf("%w: %q begins the names of %d in %s: give more of it", ErrNotFound, id, len(matches), dir)
}

// A Reader reads a snapshot: its description and its entries. The entries can be replayed like a
// recording.
type Reader struct {
	*recording.Reader
	Snapshot recording.Snapshot // its Trigger is the index of the window that triggered it
	Causes   []recording.Cause  // the first one triggered it
}

// Open opens a snapshot. The first entry to read is a configuration. Errors contain the name of the
// file, and wrap those of the package recording or [ErrNotSnapshot]. The caller closes the Reader.
func Open(ctx context.Context, path string) (*Reader, error) {
	in, err := recording.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	r := &Reader{Reader: in}
	if err := r.front(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), in.Close())
	}
	return r, nil
}

// front reads the description and the causes, which come before the windows.
func (r *Reader) front() error {
	entry, err := r.Next()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	s, ok := entry.(*recording.Snapshot)
	if !ok || s.Causes < 1 || s.Causes > MaxCauses {
		return ErrNotSnapshot
	}
	r.Snapshot = *s
	for range s.Causes {
		entry, err := r.Next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		c, ok := entry.(*recording.Cause)
		if !ok {
			return ErrNotSnapshot
		}
		r.Causes = append(r.Causes, *c)
	}
	return nil
}
