// Package account finds the user on whose account a process counts.
//
// Limits are for each user, so that nobody can take the room of others. But a user may have
// thousands of subordinate user IDs, for user namespaces and containers, and so run processes of as
// many users (subuid(5)). Those count on the account of the user who owns the IDs.
package account

import (
	"bufio"
	"io"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// path names the file with the ranges of subordinate user IDs.
	path = "/etc/subuid"

	maxBytes  = 1 << 20 // of the file that are read
	maxRanges = 1 << 14

	// refreshed is the interval between readings of the file.
	refreshed = time.Minute
)

// A Table knows whose the subordinate user IDs are. It reads /etc/subuid when it is first used, and
// again each minute. The zero value is ready to use, by several goroutines at once.
type Table struct {
	mu     sync.Mutex
	read   time.Time
	ranges []ownedRange
	owners map[string]int // user IDs of owners that were looked up
}

// An ownedRange is a range of subordinate user IDs.
type ownedRange struct {
	first, count int
	owner        string // name or ID of a user
}

// Of returns the user ID of the account on which the processes of a user ID count: the owner of
// the ID if it is subordinate, and otherwise the ID itself. If the owner is not known, or is root, who
// gives IDs to containers of others, it is the first ID of the range.
func (t *Table) Of(uid int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.read.IsZero() || now.Sub(t.read) >= refreshed {
		t.ranges, t.owners, t.read = load(), make(map[string]int), now
	}
	return t.of(uid, userID)
}

// of is Of with a function that returns the ID of a user, or 0. Each owner is looked up once, because that
// may ask a server.
func (t *Table) of(uid int, lookup func(name string) int) int {
	i := slices.IndexFunc(t.ranges, func(r ownedRange) bool { return uid >= r.first && uid-r.first < r.count })
	if i < 0 {
		return uid
	}
	r := t.ranges[i]
	owner, known := t.owners[r.owner]
	if !known {
		owner = lookup(r.owner)
		t.owners[r.owner] = owner
	}
	if owner == 0 {
		return r.first
	}
	return owner
}

// load reads the file. Without one there are no subordinate IDs.
func load() []ownedRange {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	return parse(io.LimitReader(f, maxBytes))
}

// userID returns the ID of a user with a name or an ID, or 0 if there is no such user.
func userID(name string) int {
	if found, err := user.Lookup(name); err == nil {
		name = found.Uid
	}
	id, err := strconv.ParseUint(name, 10, 32)
	if err != nil {
		return 0
	}
	return int(id)
}

// parse reads lines like "name:100000:65536". The name may be a user ID. It ignores other lines, and
// ranges with root.
func parse(r io.Reader) (ranges []ownedRange) {
	for lines := bufio.NewScanner(r); lines.Scan() && len(ranges) < maxRanges; {
		owner, rest, _ := strings.Cut(lines.Text(), ":")
		first, count, _ := strings.Cut(rest, ":")
		from, err := strconv.ParseUint(first, 10, 32)
		if err != nil || from == 0 {
			continue
		}
		n, err := strconv.ParseUint(count, 10, 32)
		if err != nil {
			continue
		}
		ranges = append(ranges, ownedRange{int(from), int(n), owner})
	}
	return ranges
}
