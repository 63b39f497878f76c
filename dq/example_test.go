package dq_test

import (
	"fmt"
	"log"
	"time"

	"github.com/beamscope/beamscope/dq"
)

func Example() {
	grid, err := dq.BaseGrid(time.Millisecond, -2, 200) // 200 bins of 250µs
	if err != nil {
		log.Fatal(err)
	}
	front, err := dq.Uniform(grid, 1*time.Millisecond, 3*time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	back, err := dq.Exponential(grid, 4*time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	if back, err = dq.Scale(back, 0.98); err != nil { // fails in 2 %
		log.Fatal(err)
	}
	whole, err := dq.Sequential(front, back)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range []float64{0.5, 0.9, 0.99} {
		if v, ok := whole.Quantile(p); ok {
			fmt.Printf("%v within %v to %v\n", p, v.Lo, v.Hi)
		} else {
			fmt.Printf("%v never\n", p)
		}
	}
	// Output:
	// 0.5 within 4.75ms to 5.25ms
	// 0.9 within 11.75ms to 12.25ms
	// 0.99 never
}

func ExampleQTA_Judge() {
	grid, err := dq.NewGrid(time.Millisecond, 50)
	if err != nil {
		log.Fatal(err)
	}
	counts := make([]uint64, 50)
	counts[4], counts[9], counts[30] = 60, 30, 8
	observed, err := dq.FromCounts(grid, counts, 1, 1) // one failure, one timeout
	if err != nil {
		log.Fatal(err)
	}
	d, err := observed.DeltaQ()
	if err != nil {
		log.Fatal(err)
	}
	required, err := dq.Quartiles(6*time.Millisecond, 8*time.Millisecond, 12*time.Millisecond, 0.05)
	if err != nil {
		log.Fatal(err)
	}
	j, err := required.Judge(d)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("met: %v, slack %v at point %d, %.2f at point %d\n",
		j.Met, j.Slack.Time, j.Slack.TimeAt, j.Slack.Probability, j.Slack.ProbabilityAt)
	// Output:
	// met: yes, slack 1ms at point 0, 0.03 at point 3
}
