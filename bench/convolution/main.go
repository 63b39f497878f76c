// Command convolution measures the algebra of package dq in one run on one core:
//
//   - the convolution of two observed ΔQs of N bins, next to gonum's FFT and to
//     FFTW3, each with what it can keep and with everything made anew;
//   - a window of a diagram of a hundred probes of 1000 bins, from new counts to
//     confidence bounds.
//
// The rounds of all methods alternate, so that other load on the machine affects all methods alike.
// The command prints medians, and ratios of medians.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

func main() {
	rounds := flag.Int("rounds", 21, "rounds of each")
	fftw := flag.String("fftw", "", "program built from dq/testdata/fftw_bench.c")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	if err := run(os.Stdout, *rounds, *fftw); err != nil {
		fmt.Fprintln(os.Stderr, "convolution:", err)
		os.Exit(1)
	}
}

// sizes are the numbers of bins of each operand.
func sizes() []int { return []int{50, 200, 1000, 4000, 32768, 65536} }

// A method convolves two densities of n bins count times and returns the nanoseconds for one
// convolution.
type method struct {
	name    string
	measure func(n, count int) (ns float64, err error)
}

func run(out io.Writer, rounds int, fftw string) error {
	methods := append(ours(), gonum()...)
	if fftw != "" {
		other, err := startFFTW(fftw)
		if err != nil {
			return err
		}
		defer other.stop()
		methods = append(methods, other.methods()...)
	}
	diagrams, err := newDiagrams()
	if err != nil {
		return err
	}
	results := map[cell][]float64{}
	counts := map[cell]int{}
	for round := range rounds + 1 { // the first round only determines the batch size
		for _, n := range sizes() {
			for _, m := range methods {
				c := cell{m.name, n}
				ns, err := m.measure(n, max(1, counts[c]))
				if err != nil {
					return fmt.Errorf("%s, N = %d: %w", m.name, n, err)
				}
				if round == 0 {
					counts[c] = int(batch.Seconds() * 1e9 / ns)
					continue
				}
				results[c] = append(results[c], ns)
			}
		}
		for _, d := range diagrams {
			if err := d.round(); err != nil {
				return err
			}
		}
	}
	report(out, methods, results, rounds)
	reportDiagrams(out, diagrams)
	return nil
}

// batch is the approximate time for which a method is measured in a round.
const batch = 4 * time.Millisecond

// A cell is a place in the table.
type cell struct {
	method string
	n      int
}

func report(out io.Writer, methods []method, results map[cell][]float64, rounds int) {
	fmt.Fprintf(out, "One convolution in µs, medians of %d rounds; in brackets how many times as long as beamscope's, all new\n\n", rounds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "N\t")
	for _, m := range methods {
		fmt.Fprintf(w, "%s\t", m.name)
	}
	fmt.Fprintln(w)
	for _, n := range sizes() {
		fmt.Fprintf(w, "%d\t", n)
		first := median(results[cell{methods[0].name, n}])
		for i, m := range methods {
			ns := median(results[cell{m.name, n}])
			fmt.Fprintf(w, "%.4g", ns/1000)
			if i > 0 {
				fmt.Fprintf(w, " (%.2f)", ns/first)
			}
			fmt.Fprint(w, "\t")
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	fmt.Fprint(out, `
beamscope computes both bounds, with what rounding may add, the others one density.
"reused" has the transforms of operands that have not changed, "kept" plans or
tables. A ΔQ has at most 65536 bins: the sum of two of 65536 has bins twice as wide,
and beamscope brings both to 32768 bins first, which is half the work of the others;
of two of 32768 all compute the same.

`)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
