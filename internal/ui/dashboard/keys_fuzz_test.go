package dashboard

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/config"
)

// A wary control reports invalid configurations.
type wary struct {
	*connected
	t *testing.T
}

func (w wary) ApplyFrom(ctx context.Context, base, c config.Config) error {
	if _, err := c.System(); err != nil {
		w.t.Errorf("an invalid configuration was applied: %v", err)
	}
	return w.control.ApplyFrom(ctx, base, c)
}

// anyPress maps a byte to a key. It covers all keys except those that quit.
func anyPress(b byte) *tcell.EventKey {
	special := []tcell.Key{tcell.KeyEnter, tcell.KeyEnter, tcell.KeyEscape, tcell.KeyUp, tcell.KeyDown, tcell.KeyDown, tcell.KeyLeft, tcell.KeyRight,
		tcell.KeyTab, tcell.KeyBacktab, tcell.KeyDelete, tcell.KeyBackspace2, tcell.KeyPgUp, tcell.KeyPgDn, tcell.KeyHome, tcell.KeyEnd}
	runes := []rune("ptcptcdavvrhofe,.<>[]+-= 1239z?xn0.25truesm|&")
	if int(b) < 3*len(special) {
		return tcell.NewEventKey(special[int(b)%len(special)], 0, tcell.ModNone)
	}
	return tcell.NewEventKey(tcell.KeyRune, runes[int(b)%len(runes)], tcell.ModNone)
}

// Whatever keys are pressed, the dashboard keeps running, and it applies only valid
// configurations.
func FuzzKeys(f *testing.F) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		keys := make([]byte, 60)
		for i := range keys {
			keys[i] = byte(random.Uint32())
		}
		f.Add(keys)
	}
	f.Add([]byte("\x00\x04\x04\x00"))
	f.Fuzz(func(t *testing.T, keys []byte) {
		width := 80
		if len(keys)%2 == 0 {
			width = 120
		}
		h := start(t, "mm1k", 39, width, 30, 256, withSnapshots(copied(t)))
		t.Chdir(t.TempDir()) // because pictures are written there
		status := session.Status{Wrappers: &session.WrapperStatus{Listen: "127.0.0.1:8080"}}
		h.do(func() { h.d.control = wary{&connected{control: h.control, status: status}, t} })
		var pressed []*tcell.EventKey
		for i, b := range keys[:min(len(keys), 80)] {
			if b != 0xff {
				pressed = append(pressed, anyPress(b))
				continue
			}
			h.pressAll(pressed)
			pressed = nil
			h.mouseAt(i*7%width, i*11%30, tview.MouseLeftDown, tview.MouseLeftClick, tview.MouseLeftDoubleClick)
		}
		h.pressAll(pressed)
		h.text()
	})
}
