package explain

import "github.com/beamscope/beamscope/internal/trace"

// reasonShort is why something was not followed that could be.
const reasonShort = "followed, but too short to be shown"

// trace makes a trace of a root, of at most [trace.MaxSpans].
//
// Where there are more spans, those that take turns are gathered: among siblings next to
// each other that are short against the whole, those that are alike become one, with the
// number of its parts. So all times keep their kinds, and it still is a timeline as far
// as one can see: what is gathered is, at first, shorter than 1/64 of the whole. What
// is waited for is gathered with all below it. If that is not enough, what is below a
// short wait is left out, and all is done again with larger limits.
func (n node) trace() *trace.Trace {
	n.children = joined(n.children)
	for parts := int64(64); n.count() > trace.MaxSpans; parts /= 2 {
		limit := n.Duration() / max(1, parts)
		n.children = gathered(n.children, limit, parts == 0)
		if n.count() <= trace.MaxSpans {
			break
		}
		n.children = joined(pruned(n.children, limit/4))
	}
	t := &trace.Trace{Spans: make([]trace.Span, 0, n.count())}
	n.flatten(t, -1)
	return t
}

// What is gathered before all is known: where there are more nodes, what is shorter than
// this part of the instance. The rest is left to [node.trace].
const (
	manyNodes  = 1 << 14
	shortParts = 1024
)

// A gatherer keeps siblings from getting too many while they are made.
type gatherer struct {
	limit int64 // of what is gathered
	nodes []node
	count int // with those below
	most  int // until they are gathered
}

func (g *gatherer) add(nodes ...node) {
	g.nodes = append(g.nodes, nodes...)
	g.count += count(nodes)
	if g.count <= max(g.most, manyNodes) {
		return
	}
	g.nodes = append(g.nodes[:0], gathered(joined(g.nodes), g.limit, false)...)
	g.count = count(g.nodes)
	g.most = 2 * g.count // where there is little to gather, it is not tried each time
}

// flatten appends a span and what is below it to a trace.
func (n *node) flatten(t *trace.Trace, parent int) {
	n.Parent = parent
	at := len(t.Spans)
	t.Spans = append(t.Spans, n.Span)
	for i := range n.children {
		n.children[i].flatten(t, at)
	}
}

// count returns how many spans there are.
func (n *node) count() int { return 1 + count(n.children) }

func count(nodes []node) int {
	sum := 0
	for i := range nodes {
		sum += nodes[i].count()
	}
	return sum
}

// joined joins leaves that follow each other and are alike but for their times.
func joined(nodes []node) []node {
	result := nodes[:0]
	for _, n := range nodes {
		n.children = joined(n.children)
		if k := len(result); k > 0 && n.isLeaf() && result[k-1].isLeaf() {
			if like := n.Span; alike(&like, &result[k-1].Span) {
				result[k-1].End = n.End
				continue
			}
		}
		result = append(result, n)
	}
	return result
}

func (n *node) isLeaf() bool { return len(n.children) == 0 }

// alike reports whether spans say the same of their times.
func alike(a, b *trace.Span) bool {
	x := *a
	x.Start, x.End = b.Start, b.End
	return x == *b
}

// pruned makes leaves of what is waited for shorter than a limit.
func pruned(nodes []node, limit int64) []node {
	for i := range nodes {
		n := &nodes[i]
		if !n.isLeaf() && n.Duration() <= limit {
			n.children = nil
			if n.Reason == "" {
				n.Reason = reasonShort
			}
		}
		n.children = pruned(n.children, limit)
	}
	return nodes
}

// gathered gathers what takes turns among siblings: for that, it divides them into groups
// that are no longer than a limit, where they are not so themselves. At the coarsest
// not even reasons and other processes are told apart.
func gathered(nodes []node, limit int64, coarse bool) []node {
	var result []node
	for len(nodes) > 0 {
		k := 0
		for k < len(nodes) && nodes[k].End-nodes[0].Start <= limit {
			k++
		}
		if k == 0 {
			n := nodes[0]
			n.children = gathered(n.children, limit, coarse)
			result = append(result, n)
			nodes = nodes[1:]
			continue
		}
		result = append(result, gather(nodes[:k], coarse)...)
		nodes = nodes[k:]
	}
	return result
}

// A sort is what spans that are gathered have in common.
type sort struct {
	kind           trace.Kind
	process        trace.PID
	mark           trace.Mark
	detail, reason string
	leaf           bool
}

func (n *node) sort(coarse bool) sort {
	if coarse {
		return sort{kind: n.Kind, mark: n.Mark}
	}
	return sort{n.Kind, n.Process, n.Mark, n.Detail, n.Reason, n.isLeaf()}
}

// gather makes one of each sort of siblings that follow each other.
func gather(nodes []node, coarse bool) []node {
	if coarse {
		for i := range nodes {
			nodes[i].children = nil
		}
	}
	if len(nodes) < 3 {
		return nodes
	}
	start := nodes[0].Start
	index := make(map[sort]int)
	var result []node
	for _, n := range nodes {
		key := n.sort(coarse)
		i, ok := index[key]
		if !ok {
			index[key] = len(result)
			if n.Parts == 0 {
				n.Parts = 1
			}
			result = append(result, n)
			continue
		}
		result[i].absorb(n)
	}
	if len(result) == len(nodes) {
		return nodes
	}
	for i := range result {
		if len(result[i].children) > 0 {
			result[i].children = gather(result[i].children, coarse)
		}
		result[i].move(start)
		start = result[i].End
	}
	return result
}

// absorb adds the time of another span, and what is below it, to a span.
func (n *node) absorb(o node) {
	n.End += o.Duration()
	n.Parts += max(1, o.Parts)
	n.Behind = max(n.Behind, o.Behind)
	n.Overtaken = max(n.Overtaken, o.Overtaken)
	if n.Process != o.Process {
		n.Process = 0
	}
	if n.Other != o.Other {
		n.Other = 0
	}
	if n.Detail != o.Detail {
		n.Detail = ""
	}
	if n.Reason != o.Reason {
		n.Reason = ""
	}
	if n.Link != o.Link {
		n.Link = trace.Link{}
	}
	n.children = append(n.children, o.children...)
}

// move moves a span to a time, and what is below it, one after the other.
func (n *node) move(start int64) {
	n.Start, n.End = start, start+n.Duration()
	for i := range n.children {
		n.children[i].move(start)
		start = n.children[i].End
	}
}
