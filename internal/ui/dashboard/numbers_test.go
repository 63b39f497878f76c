package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// Shares and delays may be written as people usually write them.
func TestNumbersAsUsuallyWritten(t *testing.T) {
	for text, want := range map[string]string{"10%": "0.1", "10 %": "0.1", " 12.3%": "0.123", "0.1": "0.1", "true": "true"} {
		if got, err := shareOf(text); got != want || err != nil {
			t.Errorf("%q: %q, error %v, want %q", text, got, err, want)
		}
	}
	if _, err := shareOf("0,1"); err == nil || !strings.Contains(err.Error(), "did you mean 0.1?") {
		t.Errorf("error %v", err)
	}
	if got := delayOf(" 200 ms"); got != "200ms" {
		t.Errorf("%q", got)
	}
}

// A trigger accepts a percentage, and stores it as a share.
func TestTriggerOfPercent(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.keys("t")
	h.selectRow("trigger failure")
	h.key(tcell.KeyEnter)
	h.answer("0,2")
	h.shows("did you mean 0.2?", "failure of probe (Enter, or Esc)")
	h.answer("20 %")
	h.shows("failure of probe is 0.2: w saves it")
	if setting, _ := h.last(0).Entry("probe").Trigger("failure"); setting != "0.2" {
		t.Errorf("got %q", setting)
	}
}

// Errors of a scale suggest a valid value.
func TestScaleAdvice(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.keys("m")
	h.enter("dmax", "200 ms")
	h.enter("bins", "743")
	h.do(func() {
		f := h.d.open.(*parametersTab).form()
		if wrong := f.param("bins").wrong; !strings.HasSuffix(wrong, "800 bins would do") || strings.Contains(wrong, "invalid grid") {
			t.Errorf("bins: %q", wrong)
		}
	})
	h.hides("invalid grid")
	if n := leastExponent(time.Millisecond); n != -6 {
		t.Errorf("%d is the least exponent of 1ms, want -6", n)
	}
	if n := nearestBins(10*time.Millisecond, 7); n != 8 {
		t.Errorf("%d bins of 10ms, want 8", n)
	}
}

// Several fits share one message, which never replaces a more important one.
func TestFittedTogether(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256, running)
	h.key(tcell.KeyF1)
	h.key(tcell.KeyEscape)
	say := func(n outcome.Notice) {
		h.do(func() {
			h.d.answered = time.Time{}
			h.d.Notify(n)
			h.d.refresh()
		})
	}
	fitted := func(name, text string) {
		say(outcome.Notice{Kind: outcome.FittedNotice, Outcome: name, Text: name + text})
	}
	history := func(text string) { say(outcome.Notice{Kind: outcome.HistoryNotice, Text: text}) }
	h.do(func() { h.d.weighty = false })
	fitted("db", ": fitted to 768 bins of 1ms, up to 768ms: 99 % took up to 500ms")
	h.shows("db: fitted to 768 bins")
	fitted("web", ": fitted to 768 bins of 1ms, up to 768ms: 99 % took up to 500ms")
	h.shows("2 outcomes fitted: db, web; press c for more")
	say(outcome.Notice{Kind: outcome.ExitedNotice, Text: "pid 2829 has exited"})
	fitted("web", ": fitted to 100 bins of 1ms, up to 100ms: 99 % took up to 50ms")
	history("web: 100 bins of 1ms instead of 768 of 1ms: a new history begins")
	h.shows("pid 2829 has exited")
	say(outcome.Notice{Text: "gc is not observed any more: 12k events/s = 11.0% of a core, limit 10.0%"})
	fitted("db", ": fitted to 100 bins of 1ms, up to 100ms: 99 % took up to 50ms")
	history("db: 100 bins of 1ms instead of 768 of 1ms: a new history begins")
	h.shows("gc is not observed any more")
}

// An error disappears when the user leaves the place where it occurred.
func TestErrorDisappears(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.keys("p")
	h.do(func() { h.d.fail(errSelect) })
	h.shows(errSelect.Error())
	h.keys("p")
	h.hides(errSelect.Error())
}

// The details of a row are shown completely.
func TestDetailIsComplete(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 24}, {48, 24}} {
		h := start(t, "mm1k", 20, size[0], size[1], 256)
		for _, tab := range "tp" {
			h.keys(string(tab))
			l := listingOf(h.d.open)
			for _, r := range l.rows {
				if r.key == "" {
					continue
				}
				h.selectRow(r.key)
				text := h.text()
				var words []string
				h.do(func() { words = strings.Fields(l.detail.GetText(true)) })
				for _, word := range words {
					if !strings.HasPrefix(word, "─") && !strings.Contains(text, word) {
						t.Errorf("%v, %s: %q is not shown\n%s", size, r.key, word, text)
						break
					}
				}
			}
		}
	}
}
