package explain

import "github.com/beamscope/beamscope/internal/explain/trace"

// reasonShort is the reason for not following a wait that could be followed.
const reasonShort = "followed, but too short to be shown"

// trace makes a trace from a root, with at most [trace.MaxSpans] spans.
//
// If there are more spans, alternating siblings are gathered: among adjacent siblings that are
// short compared with the whole, those of the same kind become one span with the number of its
// parts. So all times keep their kinds, and the trace remains a timeline at the visible resolution:
// at first only spans shorter than 1/64 of the whole are gathered. A span that waits for another
// process is gathered with everything below it. If that is not enough, everything below short waits
// is left out, and the procedure is repeated with larger limits.
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

// Limits of early gathering, before all nodes are known. If there are more nodes than this, nodes
// shorter than this part of the instance are gathered. [node.trace] does the rest.
const (
	manyNodes  = 1 << 14
	shortParts = 1024
)

// A gatherer limits the number of siblings while they are made.
type gatherer struct {
	limit int64 // limit of gathered lengths
	nodes []node
	count int // number of nodes, including those below
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
	g.most = 2 * g.count // avoids repeated attempts if there is little to gather
}

// flatten appends a span and the spans below it to a trace.
func (n *node) flatten(t *trace.Trace, parent int) {
	n.Parent = parent
	at := len(t.Spans)
	t.Spans = append(t.Spans, n.Span)
	for i := range n.children {
		n.children[i].flatten(t, at)
	}
}

// count returns the number of spans.
func (n *node) count() int { return 1 + count(n.children) }

func count(nodes []node) int {
	sum := 0
	for i := range nodes {
		sum += nodes[i].count()
	}
	return sum
}

// joined joins successive leaves that differ only in their times.
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

// alike reports whether spans describe their times in the same way.
func alike(a, b *trace.Span) bool {
	x := *a
	x.Start, x.End = b.Start, b.End
	return x == *b
}

// pruned turns waits shorter than a limit into leaves.
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

// gathered gathers alternating siblings. It divides them into groups that are no longer than a
// limit; a longer sibling is not gathered. At the coarsest level it ignores even reasons and other
// processes.
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

// A sort contains the common properties of gathered spans.
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

// gather merges successive siblings of the same sort.
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

// absorb adds the time of another span, and the spans below it, to a span.
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

// move moves a span to a time, and places the spans below it one after the other.
func (n *node) move(start int64) {
	n.Start, n.End = start, start+n.Duration()
	for i := range n.children {
		n.children[i].move(start)
		start = n.children[i].End
	}
}
