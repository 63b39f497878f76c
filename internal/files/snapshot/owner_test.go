package snapshot_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/files/snapshot"
)

// by returns a cause of window n in the VM with a PID, whose outcome names the owner.
func by(n, pid int, owner string) owned {
	c := cause(n, "silence")
	c.VM = outcome.VM{PID: pid}
	c.Outcome = strings.ReplaceAll(owner, " ", "")
	return owned{c, owner}
}

// fireBy makes a snapshot of window n with some causes, in a run of its own.
func fireBy(t *testing.T, o snapshot.Options, n int, causes ...owned) {
	t.Helper()
	o.After = 0
	do, end := keep(t, o)
	do(config("b"), batch(n))
	for _, c := range causes {
		do(c)
	}
	if errs := end(); len(errs) != 1 || errs[0] != nil {
		t.Fatal(errs)
	}
}

// kept returns the seconds and outcomes in the names of the snapshots in a folder, the oldest first.
func kept(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	for _, name := range names(list(t, dir)) {
		parts := strings.Split(strings.TrimSuffix(name, ".bsr"), "-")
		all = append([]string{parts[0][13:15] + parts[1]}, all...)
	}
	return strings.Join(all, " ")
}

// A user whose triggers fire all the time, in new VMs too, evicts no snapshots of others.
func TestEvictsOfUserWithMost(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.MaxFiles = 5
	fireBy(t, o, 0, by(0, 7, "user 1"))
	fireBy(t, o, 1, by(1, 8, "user 2"))
	fireBy(t, o, 2, by(2, 7, "user 1"))
	for n := range 20 {
		fireBy(t, o, 3+n, by(3+n, 100+n, "user 3"))
	}
	equal(t, "01user1 02user2 03user1 22user3 23user3", kept(t, dir))
}

// Of users that have equally many snapshots, the oldest goes.
func TestEvictsOldestOfEquals(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.MaxFiles = 3
	for n := range 4 {
		fireBy(t, o, n, by(n, n+1, []string{"user 1", "user 2", "user 1", "user 2"}[n]))
	}
	equal(t, "02user2 03user1 04user2", kept(t, dir))
}

// Where the user is unknown, the VM stands for it.
func TestEvictsOfVMWithMost(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.MaxFiles = 3
	for n, pid := range []int{7, 8, 9, 9, 9} {
		c := by(n, pid, "")
		c.Outcome = "b"
		fireBy(t, o, n, c)
	}
	equal(t, "01b 02b 05b", kept(t, dir))
}

// The limit of bytes evicts like the limit of files.
func TestEvictsOfUserWithMostBytes(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	fireBy(t, o, 0, by(0, 7, "user 1"))
	o.MaxBytes = 3*list(t, dir)[0].Size + 20
	for n := range 6 {
		fireBy(t, o, 1+n, by(1+n, 8, "user 2"))
	}
	equal(t, "01user1 06user2 07user2", kept(t, dir))
}

// A snapshot with causes of several users counts for the one that has the fewest. So an incident is
// not lost because somebody else's trigger fired first.
func TestEvictsSharedLast(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.MaxFiles = 3
	fireBy(t, o, 0, by(0, 7, "user 3"), by(0, 8, "user 1"))
	var many []owned
	for range snapshot.MaxCauses + 1 {
		many = append(many, by(1, 7, "user 3"))
	}
	fireBy(t, o, 1, append(many, by(1, 9, "user 2"))...)
	for n := range 5 {
		fireBy(t, o, 2+n, by(2+n, 7, "user 3"))
	}
	equal(t, "01user3 02user3 07user3", kept(t, dir))
}

// However many users an incident has, its snapshot is written.
func TestManyOwners(t *testing.T) {
	dir := t.TempDir()
	var many []owned
	for n := range 2 * snapshot.MaxCauses {
		many = append(many, by(0, n, "user "+string(rune('A'+n))))
	}
	fireBy(t, options(dir), 0, many...)
	equal(t, "01userA", kept(t, dir))
}

// Damaged snapshots count as those of one user.
func TestEvictsDamaged(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	fireBy(t, o, 0, by(0, 7, "user 1"))
	whole, err := os.ReadFile(list(t, dir)[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, second := range []string{"02", "03", "04"} {
		write(t, filepath.Join(dir, "20261121T0145"+second+".123Z-damaged-qta.bsr"), string(whole[:20]))
	}
	o.MaxFiles = 4
	fireBy(t, o, 4, by(4, 7, "user 1"))
	equal(t, "01user1 03damaged 04damaged 05user1", kept(t, dir))
}
