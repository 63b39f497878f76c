package figures_test

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/figures"
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
