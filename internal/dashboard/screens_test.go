package dashboard

import "testing"

func TestTry(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	for _, k := range "spmtc" {
		h.keys(string(k))
		t.Log(h.text())
		h.keys(string(k))
	}
}
