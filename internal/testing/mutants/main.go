// Mutants changes the code of some packages in one place at a time and runs their tests: a change
// that no test notices, a survivor, shows that a test is missing.
//
// Usage:
//
//	go run ./internal/testing/mutants [-seed N] [-count N] [-only FILE] [package ...]
//
// It draws mutants at random; the same seed draws the same mutants of the same code. It does not
// change the working tree: mutants reach the compiler by an overlay. Mutants that do not compile do
// not count, and neither do those that equivalent.txt lists with a reason. The exit status is 1 if
// the share of killed mutants is below -least.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"
)

func main() {
	seed := flag.Uint64("seed", 1, "which mutants are drawn")
	count := flag.Int("count", 240, "how many are tried, 0 for all")
	only := flag.String("only", "", "only files whose path contains this")
	list := flag.String("equivalent", "internal/testing/mutants/equivalent.txt", "mutants that change nothing, with reasons")
	least := flag.Float64("least", 95, "the percentage to be killed")
	show := flag.Bool("n", false, "print the mutants and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := &run{ctx: ctx, show: *show, results: map[result]int{}}
	if err := r.draw(flag.Args(), *only, *list, *seed, *count); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if err := r.all(); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if *show {
		return
	}
	if killed := r.report(*seed); killed < *least {
		os.Exit(1)
	}
}

// A run tries mutants.
type run struct {
	ctx        context.Context
	show       bool
	drawn      []mutant
	equivalent int
	results    map[result]int
	survivors  []mutant
	done       int
}

// draw collects the mutants of the packages, or of all targets if none is named.
func (r *run) draw(packages []string, only, list string, seed uint64, count int) error {
	known, err := readEquivalent(list)
	if err != nil {
		return err
	}
	for i := range targets {
		t := &targets[i]
		if len(packages) > 0 && !slices.ContainsFunc(packages, t.is) {
			continue
		}
		found, err := t.mutants()
		if err != nil {
			return err
		}
		for _, m := range found {
			switch {
			case !strings.Contains(m.file, only):
			case known.has(m):
				r.equivalent++
			default:
				r.drawn = append(r.drawn, m)
			}
		}
	}
	if len(packages) == 0 && only == "" {
		for _, entry := range known.unused() {
			fmt.Printf("%s: there is no such mutant any more: %s\n", list, entry)
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(r.drawn), func(i, j int) { r.drawn[i], r.drawn[j] = r.drawn[j], r.drawn[i] })
	if count > 0 {
		r.drawn = r.drawn[:min(count, len(r.drawn))]
	}
	return nil
}

// A result is the result of testing a mutant.
type result int

const (
	survived result = iota
	failed          // a test has failed
	timedOut        // a test did not end
	broken          // it does not compile
)

// all tries the mutants, target by target.
func (r *run) all() error {
	byTarget := map[*target][]mutant{}
	for i, m := range r.drawn {
		m.id = i + 1
		byTarget[m.target] = append(byTarget[m.target], m)
		if r.show {
			fmt.Println(m)
		}
	}
	for i := range targets {
		for _, b := range batches(&targets[i], byTarget[&targets[i]]) {
			if r.show {
				continue
			}
			if err := r.batch(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// batch tests the mutants of a batch: all with the first tests, then the survivors with the next
// ones.
func (r *run) batch(b *batch) (err error) {
	if b.dir, err = os.MkdirTemp("", "mutants"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	wrong, err := b.compile(r.ctx)
	if err != nil {
		return err
	}
	r.results[broken] += wrong
	left := b.mutants
	for i := 0; i < len(b.target.tests) && len(left) > 0; i++ {
		if err := b.make(r.ctx, i); err != nil {
			return err
		}
		if left, err = r.try(b.binaries[i], left); err != nil {
			return err
		}
	}
	for _, m := range left {
		r.results[survived]++
		r.survivors = append(r.survivors, m)
		fmt.Println(m)
	}
	r.done += len(b.mutants) + wrong
	fmt.Fprintf(os.Stderr, "%d of %d tried\n", r.done, len(r.drawn))
	return nil
}

// try tests mutants in parallel, as many as there are processors, and returns the survivors.
func (r *run) try(b *binary, mutants []mutant) (left []mutant, err error) {
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	var mu sync.Mutex
	for _, m := range mutants {
		workers.Go(func() error {
			got, err := b.run(r.ctx, m.id)
			if err := cmp.Or(r.ctx.Err(), err); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if got == survived {
				left = append(left, m)
				return nil
			}
			if r.results[got]++; got == timedOut {
				fmt.Fprintln(os.Stderr, "timed out:", m)
			}
			return nil
		})
	}
	return left, workers.Wait()
}

// report prints the share of killed mutants, and returns it in percent.
func (r *run) report(seed uint64) float64 {
	killed := r.results[failed] + r.results[timedOut]
	tried := killed + r.results[survived]
	share := 100 * float64(killed) / float64(max(1, tried))
	fmt.Printf("seed %d: %d of %d mutants killed, %.1f %%, of these %d by a timeout; %d survived\n",
		seed, killed, tried, share, r.results[timedOut], r.results[survived])
	fmt.Printf("%d more did not compile, and %d are listed as equivalent\n", r.results[broken], r.equivalent)
	return share
}
