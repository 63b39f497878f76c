package account

import (
	"os"
	"strings"
	"testing"
)

// Subordinate user IDs count on the account of their owner, and all others on their own.
func TestSubordinates(t *testing.T) {
	const file = "alice:100000:65536\n# a comment\nbob:165536:10\n1003:200000:2\ngone:300000:5\nroot:0:65536\nroot:500000:10\nshort:1\nmany:400000:99999999999\n\n"
	ids := map[string]int{"alice": 1001, "bob": 1002, "1003": 1003}
	asked := make(map[string]int)
	table := Table{ranges: parse(strings.NewReader(file)), owners: make(map[string]int)}
	lookup := func(name string) int { asked[name]++; return ids[name] }
	for uid, want := range map[int]int{
		0: 0, 1001: 1001, 99_999: 99_999, 100_000: 1001, 165_535: 1001, 165_536: 1002, 165_545: 1002, 165_546: 165_546,
		200_001: 1003, 300_004: 300_000, 400_000: 400_000, 500_003: 500_000,
	} {
		if got := table.of(uid, lookup); got != want {
			t.Errorf("user ID %d counts on the account of %d, want %d", uid, got, want)
		}
	}
	for name, times := range asked {
		if times != 1 {
			t.Errorf("%s was looked up %d times", name, times)
		}
	}
}

// The file of this machine is read.
func TestTable(t *testing.T) {
	var table Table
	if got := table.Of(0); got != 0 {
		t.Errorf("root counts on the account of %d", got)
	}
	if _, err := os.Stat(path); err != nil && len(table.ranges) != 0 {
		t.Errorf("ranges %v without a file", table.ranges)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("alice:100000:65536\n")
	f.Add("1:4294967295:4294967295\nx:1:0\n")
	f.Fuzz(func(t *testing.T, file string) {
		table := Table{ranges: parse(strings.NewReader(file)), owners: make(map[string]int)}
		lookup := func(string) int { return 1000 }
		if got := table.of(0, lookup); got != 0 {
			t.Errorf("root counts on the account of %d", got)
		}
		for _, r := range table.ranges {
			if table.of(r.first+r.count, lookup) < 0 {
				t.Errorf("no account for an ID after %+v", r)
			}
		}
	})
}
