package session

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
)

// Timeouts of an outcome with the default dMax give a notice, once. Timeouts of other outcomes do
// not.
func TestTimeoutsOfDefaultDMax(t *testing.T) {
	c, err := config.Parse("scope.yaml", []byte(`
diagram: shop = basket -> pay -> ship -> send;
outcomes:
  pay: {dmax: 50ms}
  ship: {exponent: 1}
  bins: {span: b, bins: 20}
  plain: {qta: {p50: 5ms}}
  gc: {vm: gc}
  collections: {vm: gc-major, dmax: 2ms}
`))
	if err != nil {
		t.Fatal(err)
	}
	u := newUnset(&Session{config: c})
	row := func(name string, timeouts uint64) scope.Outcome {
		return scope.Outcome{
			Name: name, Spec: outcome.Spec{Name: name, BinWidth: time.Millisecond, Bins: 50},
			Counts: outcome.Counts{Outcome: name, Successes: 46, Timeouts: timeouts},
		}
	}
	fitted := row("send", 4)
	fitted.Fitted = true
	frame := func(rows ...scope.Outcome) (texts []string) {
		if err := u.Framed(nil, &scope.Frame{Outcomes: rows}); err != nil {
			t.Fatal(err)
		}
		for _, n := range u.take() {
			texts = append(texts, n.Text)
		}
		return texts
	}
	if said := frame(row("shop", 0), row("basket", 0), fitted); len(said) > 0 {
		t.Errorf("without timeouts: %q", said)
	}
	var named []string
	said := frame(row("basket", 4), row("pay", 4), row("ship", 4), row("bins", 4), row("plain", 4), row("gc", 4), row("collections", 4))
	for _, text := range said {
		name, _, _ := strings.Cut(text, ":")
		named = append(named, name)
	}
	if diff := cmp.Diff([]string{"basket", "plain", "gc"}, named); diff != "" {
		t.Errorf("named, -want +got:\n%s", diff)
	}
	want := "basket: 4 of 50 took longer than 50ms, which is the default of dmax, and count as timeouts. Set dmax in the scope file"
	if len(said) > 0 && said[0] != want {
		t.Errorf("%q, want %q", said[0], want)
	}
	if again := frame(row("basket", 4), row("gc", 1)); len(again) > 0 {
		t.Errorf("repeated: %q", again)
	}
}
