package dashboard

import "testing"

func TestTrySystem(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.keys("s")
	t.Log(h.text())
	h.key(13)
	h.keys("  whole=a->;\t")
	h.key(13)
	h.keys("x = p:kind[0.9](page, error);")
	t.Log(h.text())
	h.resize(120, 40)
	t.Log(h.text())
}
