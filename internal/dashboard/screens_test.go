package dashboard

import "testing"

func TestTry(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	t.Log(h.text())
	h.keys("o")
	t.Log(h.text())
	h.keys("?")
	t.Log(h.text())
}
