package dq

import (
	"fmt"
	"math"
	"slices"
)

// WriteBand writes to dst, whose memory it uses, the mean of the distribution functions at each
// edge, and bounds. At each single edge the bounds contain the long-run mean with at least the
// given probability: the mean over an unlimited number of such windows. The bounds allow for
//
//   - few instances: a window of 50 can show no 0.999,
//   - windows that differ by more than the chance of their instances,
//   - windows that resemble the windows before them, and so contain less information,
//   - few windows, from which these effects cannot be estimated well.
//
// A single window says nothing about others: the bounds are 0 and 1. For calculated ΔQs, the
// uncertainty within bins is added on both sides. WriteBand returns [ErrNoData] for an empty window
// and [ErrProbability] unless confidence is above 0 and below 1.
//
// # Method
//
// Let x₁, …, xₙ be the values of the windows at an edge, of m₁, …, mₙ instances, with the mean μ.
// If instances were independent, the variance of μ would be b = μ(1−μ)/N with N = n²/Σ(1/mᵢ). The
// windows themselves give the variance v = s²·τ/n, with their variance s² and their correlation
// time τ (see correlation). The effective number of instances is N/max(1, v/b), as in surveys by
// clusters (Korn and Graubard, "Confidence intervals for proportions with small expected number of
// positive counts", Survey Methodology 24(2), 1998). v/b is at least that of all edges together,
// because at an edge that nearly all instances are below, the windows do not show v.
//
// The bounds are those of Wilson's score interval with the correction for continuity (Newcombe,
// "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17, 1998), for
// that number of instances and with the quantile of Student's distribution of n/τ − 1 degrees of
// freedom. The bounds do not exclude a probability that corresponds to less than one effective
// instance.
func (w *Window) WriteBand(dst *Band, confidence float64) error {
	if w.held == 0 {
		return ErrNoData
	}
	if !(confidence > 0 && confidence < 1) {
		return fmt.Errorf("%w: confidence %v: want above 0, below 1", ErrProbability, confidence)
	}
	w.resize(dst)
	tau := w.correlation()
	n := float64(w.held)
	t := w.quantile(confidence, max(1, int(n/tau)-1))
	size := w.size()
	least := w.pooledEffect(tau, size)
	for k := range dst.Mean {
		mean, hidden := w.mean(k), w.hidden(k)
		dst.Mean[k] = mean
		switch {
		case k == 0:
			dst.Lo[k], dst.Hi[k] = mean, mean // no delay is below 0, so the bounds are equal to the mean
		case w.held == 1:
			dst.Lo[k], dst.Hi[k] = 0, 1
		default:
			effective := size / max(least, w.effect(k, tau, size))
			dst.Lo[k], _ = score(mean-hidden, effective, t)
			_, dst.Hi[k] = score(mean+hidden, effective, t)
		}
	}
	return nil
}

func (w *Window) resize(dst *Band) {
	size := len(w.sums)
	dst.Mean = slices.Grow(dst.Mean[:0], size)[:size]
	dst.Lo = slices.Grow(dst.Lo[:0], size)[:size]
	dst.Hi = slices.Grow(dst.Hi[:0], size)[:size]
}

// size is the number of instances of a sample that has the variance of the mean of the
// windows, if instances are independent: n²/Σ(1/mᵢ).
func (w *Window) size() float64 {
	var inverse float64
	for i := range w.held {
		inverse += 1 / float64(w.at(i).instances)
	}
	n := float64(w.held)
	return float64(n*n) / inverse
}

// effect returns the ratio of the variance of the mean at an edge, as the windows show it, to the
// variance for independent instances. It returns 0 if the ratio is unknown.
func (w *Window) effect(k int, tau, size float64) float64 {
	independent := independentVariance(w.mean(k), size)
	if independent == 0 {
		return 0
	}
	return w.variance(k, tau) / independent
}

func independentVariance(mean, size float64) float64 { return float64(mean*(1-mean)) / size }

// variance returns the variance of the mean at edge k, estimated from the windows.
func (w *Window) variance(k int, tau float64) float64 {
	deviation := w.deviation(k)
	return float64(float64(deviation*deviation)*tau) / float64(w.held)
}

// pooledEffect returns the effect for all examined edges together, at least 1.
func (w *Window) pooledEffect(tau, size float64) float64 {
	var all, independent float64
	for _, k := range w.looked {
		all += w.variance(k, tau)
		independent += independentVariance(w.mean(k), size)
	}
	if independent == 0 {
		return 1
	}
	return max(1, all/independent)
}

// maxLooked is the number of edges at which the correlation of windows is examined, and maxLag
// the largest distance between windows.
const (
	maxLooked = 16
	maxLag    = 64
)

// look sets w.looked to the edges at which the mean reaches j/16 of its final value, for j from 1
// to 16, and w.values to the values there.
func (w *Window) look() {
	w.looked = w.looked[:0]
	last := len(w.sums) - 1
	for j := 1; j <= maxLooked; j++ {
		// The sums are below 2^62: j/16 of one is exact enough without an overflow.
		level := w.sums[last] / maxLooked * uint64(j)
		k, _ := slices.BinarySearch(w.sums, level)
		if len(w.looked) == 0 || w.looked[len(w.looked)-1] != k {
			w.looked = append(w.looked, k)
		}
	}
	w.values = w.values[:0]
	for _, k := range w.looked {
		for i := range w.held {
			w.values = append(w.values, float64(w.at(i).at(k))/fixedOne)
		}
	}
}

// correlation returns a cautious upper estimate of the correlation time of the windows, τ = 1 +
// 2Σρₕ, where ρₕ is the correlation of windows that are h apart: the mean of n windows is as
// accurate as that of n/τ independent ones.
//
// It adds the autocovariances of all examined edges. The sum over h continues as long as pairs of
// autocovariances are positive (Geyer, "Practical Markov Chain Monte Carlo", Statistical Science
// 7(4), 1992). Each autocovariance is too small by the variance V of the mean, because the mean
// was estimated from the same windows. V is found by iteration. If the first autocovariance is
// significant, the sum is at least that of a geometric series with the ratio of the first two:
// the randomness of instances makes the first one smaller but does not change the ratio.
//
// The estimate is then increased to allow for a small number of windows: by 3·√(τ/n) of its
// value, and by 10/n. A few windows may resemble each other by chance, and they cannot show that:
// fewer than nine windows count as less than two independent ones. Simulations have shown that
// this is enough: see TestCoverage.
func (w *Window) correlation() float64 {
	w.look()
	n := float64(w.held)
	w.covariances = w.covariances[:0]
	tau := 1.0
	if at0 := w.covariance(0); at0 > 0 {
		var v float64
		for range 10 {
			v = min(w.sumOfCovariances(v)/n, at0/1.5)
		}
		tau = float64(v*n) / at0 // above 1: no sum is below γ₀ + V
	}
	tau = float64(tau * (1 + float64(3*math.Sqrt(tau/n))))
	return float64(tau * (1 + 10/n))
}

// sumOfCovariances returns γ₀ + 2Σγₕ. v is the variance of the mean.
func (w *Window) sumOfCovariances(v float64) float64 {
	n := float64(w.held)
	at0 := w.covariance(0)
	sum := at0 + v
	for h := 1; h+1 < w.held && h <= min(w.held/2, maxLag); h += 2 {
		pair := w.covariance(h) + v + w.covariance(h+1) + v
		if pair <= 0 {
			break
		}
		sum += pair + pair
	}
	// Fewer than six windows never show that it is significant: their sum of products of neighbours
	// is at most cos(π/(n+1)) times their sum of squares.
	if float64(w.covariance(1)*(n-1))/n > (at0+at0)/math.Sqrt(n) {
		first, second := w.covariance(1)+v, w.covariance(2)+v
		ratio := max(0, min(second/first, 1-2/n))
		sum = max(sum, at0+v+(first+first)/(1-ratio))
	}
	return sum
}

// covariance returns the autocovariance of windows that are h apart, over the examined edges.
func (w *Window) covariance(h int) float64 {
	for len(w.covariances) <= h {
		lag := len(w.covariances)
		var sum float64
		for n, k := range w.looked {
			mean, values := w.mean(k), w.values[n*w.held:][:w.held]
			for i := lag; i < w.held; i++ {
				sum += float64((values[i] - mean) * (values[i-lag] - mean))
			}
		}
		w.covariances = append(w.covariances, sum/float64(w.held-lag))
	}
	return w.covariances[h]
}

// quantile returns the result of [student] and caches it for later calls.
func (w *Window) quantile(confidence float64, df int) float64 {
	if w.confidence != confidence {
		w.confidence = confidence
		clear(w.quantiles)
	}
	if len(w.quantiles) <= df {
		w.quantiles = append(w.quantiles, make([]float64, df+1-len(w.quantiles))...)
	}
	if w.quantiles[df] == 0 {
		w.quantiles[df] = student(confidence, df)
	}
	return w.quantiles[df]
}

// score returns bounds on a probability, given that a share p of n instances was found. It uses
// Wilson's interval with the correction for continuity:
//
//	(2np + z² ∓ (1 + z√(z² ∓ 2 − 1/n + 4p(n(1−p) ± 1)))) / 2(n + z²).
//
// The lower bound is 0 if less than one instance was found, and the upper bound is 1 if less than
// one was not found.
func score(p, n, z float64) (lo, hi float64) {
	square := float64(z * z)
	base, twice := float64(2*float64(n*p))+square, float64(2*(n+square))
	rest := float64(n * (1 - p))
	lo, hi = 0, 1
	if float64(n*p) >= 1 {
		lo = max(0, (base-1-float64(z*math.Sqrt(square-2-1/n+float64(4*float64(p*(rest+1))))))/twice)
	}
	if rest >= 1 {
		hi = min(1, (base+1+float64(z*math.Sqrt(square+2-1/n+float64(4*float64(p*(rest-1))))))/twice)
	}
	return lo, hi
}
