package bpf

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// All programs of a collector share each map. A map that they do not share would be a different one for
// each program.
func TestMapsAreShared(t *testing.T) {
	spec, err := loadKernel()
	if err != nil {
		t.Fatal(err)
	}
	shared := new(Collector).sharedMaps()
	for _, name := range slices.Sorted(maps.Keys(spec.Maps)) {
		if _, ok := shared[name]; !ok && !strings.HasPrefix(name, ".") {
			t.Errorf("the programs do not share the map %s", name)
		}
	}
}
