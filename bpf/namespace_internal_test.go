package bpf

import (
	"testing"

	"github.com/cilium/ebpf/btf"
)

// Members may be in structures without a name.
func TestPlaceIn(t *testing.T) {
	inner := &btf.Struct{Members: []btf.Member{{Name: "level", Offset: 32}, {Name: "numbers", Offset: 64}}}
	members := []btf.Member{
		{Name: "count", Offset: 0},
		{Name: "named", Type: &btf.Struct{Members: []btf.Member{{Name: "hidden"}}}, Offset: 32},
		{Type: &btf.Const{Type: inner}, Offset: 64},
	}
	if at, ok := placeIn(members, "numbers"); !ok || at != 16 {
		t.Errorf("numbers: %d, %v", at, ok)
	}
	if at, ok := placeIn(members, "hidden"); ok {
		t.Errorf("hidden: %d", at)
	}
}
