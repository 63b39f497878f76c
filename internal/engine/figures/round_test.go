package figures_test

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/figures"
)

func TestRounding(t *testing.T) {
	const us = time.Microsecond
	for _, tt := range []struct{ got, want string }{
		{figures.PercentDown(0.12349), "12.34%"},
		{figures.PercentUp(0.12341), "12.35%"},
		{figures.PercentDown(0.07), "7.00%"}, // 0.07 has no exact float64
		{figures.PercentUp(0.07), "7.00%"},
		{figures.PercentUp(0.00001), "0.01%"},
		{figures.PercentDown(0.00001), "0.00%"},
		{figures.Down(0.597, 2), "0.59"},
		{figures.Down(0.07, 2), "0.07"},
		{figures.Up(99.961, 1), "100.0"},
		{figures.ShareDown(0.21288), "21.2"},
		{figures.ShareUp(0.21213), "21.3"},
		{figures.ShareDown(1.5388), "153"},
		{figures.ShareUp(1.5312), "154"},
		{figures.ShareDown(0.0004), "0.0"},
		{figures.ShareUp(0.0004), "0.1"},
		{figures.ShareDown(0), "0"},
		{figures.Probability(dq.Bounds{Lo: 0.99986, Hi: 1}), "≥99.98%"},
		{figures.Probability(dq.Bounds{Lo: 0, Hi: 1}), "≥0.00%"},
		{figures.Probability(dq.Bounds{Lo: 1 - 0x1p-50, Hi: 1}), "100.00%"}, // binary rounding
		{figures.Probability(dq.Bounds{Lo: 1 - 1e-9, Hi: 1}), "≥99.99%"},
		{figures.Probability(dq.Bounds{Lo: 0.64, Hi: 0.64000001}), "64.00%"},
		{figures.DelayDown(18256 * us), "18.2ms"},
		{figures.DelayUp(18256 * us), "18.3ms"},
		{figures.DelayUp(18300 * us), "18.3ms"},
		{figures.DelayDown(0), "0.00µs"},
		{figures.ExactDelay(18250 * us), "18.25ms"},
		{figures.ExactDelay(18 * us), "18µs"},
		{figures.ExactDelay(0), "0"},
		{figures.ExactDelay(1500 * 1000 * us), "1.5s"},
		{figures.Between(dq.Interval{Lo: 3250 * us, Hi: 4500 * us}), "3.25…4.50ms"},
		{figures.Between(dq.Interval{Lo: 18256 * us, Hi: 18256*us + 1}), "18.2…18.3ms"},
		{figures.Between(dq.Interval{Lo: 250 * us, Hi: 4500 * us}), "250µs…4.50ms"},
		{figures.Between(dq.Interval{Lo: 0, Hi: 4500 * us}), "0…4.50ms"},
		{figures.Between(dq.Interval{Lo: 3250 * us, Hi: 3250 * us}), "3.25ms"},
		{figures.Between(dq.Interval{Lo: 3250 * us, Hi: dq.Unreached}), "≥3.25ms"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s, want %s", tt.got, tt.want)
		}
	}
}
