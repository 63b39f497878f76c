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

// The requirement and a first worker leave a budget for a second worker.
func ExampleBudgetFor() {
	grid, err := dq.NewGrid(time.Millisecond, 100)
	if err != nil {
		log.Fatal(err)
	}
	worker1, err := dq.Steps(grid, []dq.Step{{T: 3 * time.Millisecond, P: 0.9}, {T: 8 * time.Millisecond, P: 0.99}})
	if err != nil {
		log.Fatal(err)
	}
	required, err := dq.NewQTA(0.05, dq.Step{T: 20 * time.Millisecond, P: 0.9})
	if err != nil {
		log.Fatal(err)
	}
	budget, err := dq.BudgetFor(required, worker1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("worker_2 may always take %v if it never fails,\n", budget.Delay)
	fmt.Printf("or fail in %.2f %% if it takes no time\n", 100*budget.Failure)
	// Output:
	// worker_2 may always take 17ms if it never fails,
	// or fail in 4.04 % if it takes no time
}

func ExampleDeconvolve() {
	grid, err := dq.NewGrid(time.Millisecond, 100)
	if err != nil {
		log.Fatal(err)
	}
	part, err := dq.Steps(grid, []dq.Step{{T: 1 * time.Millisecond, P: 0.5}, {T: 3 * time.Millisecond, P: 1}})
	if err != nil {
		log.Fatal(err)
	}
	rest, err := dq.Wait(grid, 5*time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	whole, err := dq.Sequential(part, rest)
	if err != nil {
		log.Fatal(err)
	}
	residual, err := dq.Deconvolve(whole, part)
	if err != nil {
		log.Fatal(err)
	}
	v, _ := residual.Estimate.Quantile(0.5)
	fmt.Println("the rest takes", v.Hi)
	_, err = dq.Deconvolve(part, whole)
	fmt.Println(err)
	// Output:
	// the rest takes 5ms
	// no residual exists: within 1ms the whole needs a probability of 0.5, and the part allows at most 0
}
