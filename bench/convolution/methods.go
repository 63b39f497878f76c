package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/beamscope/beamscope/dq"
)

// ours are the methods of package dq, on observed ΔQs.
func ours() []method {
	calculators := map[cell]*sequence{}
	at := func(name string, n int) (*sequence, error) {
		c := cell{name, n}
		if calculators[c] == nil {
			s, err := newSequence(n)
			if err != nil {
				return nil, err
			}
			calculators[c] = s
		}
		return calculators[c], nil
	}
	measure := func(name string, anew bool) method {
		return method{name, func(n, count int) (float64, error) {
			s, err := at(name, n)
			if err != nil {
				return 0, err
			}
			return s.measure(count, anew)
		}}
	}
	return []method{measure("beamscope, anew", true), measure("reused", false)}
}

// A sequence is two operands, and their replacements.
type sequence struct {
	calculator dq.Calculator
	dst, x, y  *dq.DeltaQ
	content    [2][2]dq.DeltaQ
}

func newSequence(n int) (*sequence, error) {
	s := &sequence{dst: new(dq.DeltaQ), x: new(dq.DeltaQ), y: new(dq.DeltaQ)}
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range s.content {
		for j := range s.content[i] {
			d, err := observed(r, n)
			if err != nil {
				return nil, err
			}
			s.content[i][j] = *d
		}
	}
	s.change(0)
	return s, s.calculator.Sequential(s.dst, s.x, s.y)
}

// change replaces the operands without copying.
func (s *sequence) change(i int) { *s.x, *s.y = s.content[i%2][0], s.content[i%2][1] }

func (s *sequence) measure(count int, anew bool) (float64, error) {
	if err := s.calculator.Sequential(s.dst, s.x, s.y); err != nil { // warm
		return 0, err
	}
	start := time.Now()
	for i := range count {
		if anew {
			s.change(i)
		}
		if err := s.calculator.Sequential(s.dst, s.x, s.y); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(start)) / float64(count), nil
}

// observed returns the ΔQ of instances in n bins.
func observed(r *rand.Rand, n int) (*dq.DeltaQ, error) {
	g, err := dq.NewGrid(time.Millisecond, n)
	if err != nil {
		return nil, err
	}
	counts := make([]uint64, n)
	fill(r, counts)
	o, err := dq.FromCounts(g, counts, 3, 1)
	if err != nil {
		return nil, err
	}
	return o.DeltaQ()
}

// fill makes counts from the first to the last bin.
func fill(r *rand.Rand, counts []uint64) {
	for i := range counts {
		counts[i] = 1 + r.Uint64N(1000)
	}
}

// gonum are methods that use gonum's real transforms.
func gonum() []method {
	kept := map[int]*gonumConvolver{}
	return []method{
		{"gonum, kept", func(n, count int) (float64, error) {
			if kept[n] == nil {
				kept[n] = newGonumConvolver(n)
			}
			return measureGonum(count, func() *gonumConvolver { return kept[n] }), nil
		}},
		{"gonum, anew", func(n, count int) (float64, error) {
			return measureGonum(count, func() *gonumConvolver { return newGonumConvolver(n) }), nil
		}},
	}
}

type gonumConvolver struct {
	fft        *fourier.FFT
	a, b, x, y []float64
	fx, fy     []complex128
	product    []float64
}

func newGonumConvolver(n int) *gonumConvolver {
	length := 1
	for length < 2*n-1 {
		length *= 2
	}
	g := &gonumConvolver{fft: fourier.NewFFT(length), a: make([]float64, n), b: make([]float64, n),
		x: make([]float64, length), y: make([]float64, length)}
	for i := range n {
		g.a[i], g.b[i] = 1/float64(n), 1/float64(n)
	}
	return g
}

func (g *gonumConvolver) convolve() {
	copy(g.x, g.a)
	copy(g.y, g.b)
	clear(g.x[len(g.a):])
	clear(g.y[len(g.b):])
	g.fx, g.fy = g.fft.Coefficients(g.fx, g.x), g.fft.Coefficients(g.fy, g.y)
	for i := range g.fx {
		g.fx[i] *= g.fy[i]
	}
	g.product = g.fft.Sequence(g.product, g.fx)
	for i := range g.product {
		g.product[i] /= float64(len(g.product))
	}
}

func measureGonum(count int, convolver func() *gonumConvolver) float64 {
	convolver().convolve()
	start := time.Now()
	for range count {
		convolver().convolve()
	}
	return float64(time.Since(start)) / float64(count)
}

// An fftwProgram convolves with FFTW3.
type fftwProgram struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startFFTW(path string) (*fftwProgram, error) {
	cmd := exec.Command(path)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &fftwProgram{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

func (p *fftwProgram) stop() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

func (p *fftwProgram) methods() []method {
	measure := func(name, how string) method {
		return method{name, func(n, count int) (float64, error) {
			if _, err := fmt.Fprintln(p.in, n, how, count); err != nil {
				return 0, err
			}
			line, err := p.out.ReadString('\n')
			if err != nil {
				return 0, err
			}
			return strconv.ParseFloat(strings.TrimSpace(line), 64)
		}}
	}
	return []method{measure("FFTW3, kept", "kept"), measure("FFTW3, planned anew", "planned")}
}
