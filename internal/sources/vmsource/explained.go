package vmsource

import (
	"slices"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/beam/procname"
	"github.com/beamscope/beamscope/internal/explain"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// explain explains the worst instances of a window if their outcomes request it, and drops events
// that no later window needs.
func (s *Source) explain(st *stage, w outcome.Window, instances []outcome.Instance) error {
	o := st.observation
	if !s.explains(o) {
		return o.record.skip(o.collector)
	}
	off, err := o.collector.OffCPU()
	if err != nil {
		return err
	}
	order := worstExplained(st, instances)
	err = o.record.forWindow(o.collector, off, func() {
		traceAll(order, instances, outcome.MaxSpans, func(i *outcome.Instance) *trace.Trace {
			return o.record.explain(s.toExplain(o, st.spec(i.Outcome), i))
		})
		o.record.forget(w.To - s.longestExplained(o) - int64(w.Duration()))
	})
	if err != nil {
		return err
	}
	s.noteUnrecorded(o.record.takeLost())
	names := s.traceNames()
	for _, at := range order {
		if i := &instances[at]; i.Trace != nil {
			nameTrace(i.Trace, names(i.VM.PID))
		}
	}
	return nil
}

// toExplain describes an instance, and what cannot be seen in its VM.
func (s *Source) toExplain(o *observation, spec *outcome.Spec, i *outcome.Instance) explain.Instance {
	in := explain.Instance{VM: i.VM.PID, Outcome: o.collector.Outcome(kernelID(*spec)), ID: i.ID, Start: i.Start, End: i.End, Owner: i.Process}
	s.blindfold(o, &in)
	return in
}

// whyUnscheduled is the reason that a trace gives if the VM has no probes for when processes run.
const whyUnscheduled = "whether it ran or waited is not known: this VM does not provide process-in and process-out"

// blindfold sets what cannot be seen in the VM of an instance.
func (s *Source) blindfold(o *observation, i *explain.Instance) {
	v := s.vms[i.VM]
	if v == nil {
		return
	}
	a := o.files[v.file]
	if a == nil {
		return
	}
	sight := a.Sight()
	if sight.Processes != nil {
		i.Unscheduled = whyUnscheduled
	}
	i.Threadless = sight.Threads != nil
}

// noteUnwatched reports once that some processes could not be watched for lack of room.
func (s *Source) noteUnwatched(o bpf.Others) {
	if o.Unwatched > 0 && !s.toldUnwatched {
		s.toldUnwatched = true
		s.note("some processes that take part in spans could not be tracked for lack of space: time that was spent in them is unexplained")
	}
}

// explains reports whether a stage of an observation has outcomes that are explained.
func (s *Source) explains(o *observation) bool { return s.longestExplained(o) > 0 }

// longestExplained returns the longest duration of an explained instance in nanoseconds, or 0 if
// no outcome is explained.
func (s *Source) longestExplained(o *observation) int64 {
	longest := int64(0)
	for _, st := range s.stages {
		if st.observation != o {
			continue
		}
		for _, spec := range st.specs {
			if spec.Explain {
				longest = max(longest, int64(spec.DMax()))
			}
		}
	}
	return longest
}

// spec returns the spec of an outcome, or nil.
func (st *stage) spec(name string) *outcome.Spec {
	i := slices.IndexFunc(st.specs, func(s outcome.Spec) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &st.specs[i]
}

// worstExplained returns the indexes of the instances to explain: the worst ones of each outcome
// and VM, beginning with the single worst of each.
func worstExplained(st *stage, instances []outcome.Instance) []int {
	var worst []int
	for i := range instances {
		if spec := st.spec(instances[i].Outcome); spec != nil && spec.Explain {
			worst = append(worst, i)
		}
	}
	slices.SortFunc(worst, func(i, j int) int { return instances[i].CompareWorst(&instances[j]) })
	ranks, byRank := make(ranking), make([][]int, outcome.MaxWorst)
	for _, i := range worst {
		if rank := ranks.next(&instances[i]); rank < outcome.MaxWorst {
			byRank[rank] = append(byRank[rank], i)
		}
	}
	return slices.Concat(byRank...)
}

// whyNoRoom is the reason in the trace of an instance if there were too many instances to
// explain.
const whyNoRoom = "there was no room to explain all instances"

// bareSpans is the largest number of spans in a trace that contains nothing but a reason.
const bareSpans = 2

// bareTrace returns a trace in which all time is unexplained for the given reason.
func bareTrace(i *outcome.Instance, reason string) *trace.Trace {
	root := trace.Span{Parent: -1, Kind: trace.Root, Start: i.Start, End: max(i.Start, i.End), Process: i.Process}
	if root.Start == root.End {
		return &trace.Trace{Spans: []trace.Span{root}}
	}
	all := root
	all.Parent, all.Kind, all.Reason = 0, trace.Unexplained, reason
	return &trace.Trace{Spans: []trace.Span{root, all}}
}

// traceAll sets traces for the instances with these indexes, in this order, with at most most
// spans together. It reserves room for a bare trace for each later instance. A trace that does
// not fit into the remaining room is replaced by a bare one.
func traceAll(order []int, instances []outcome.Instance, most int, explain func(*outcome.Instance) *trace.Trace) {
	for n, at := range order {
		i := &instances[at]
		t := explain(i)
		if later := len(order) - n - 1; len(t.Spans) > most-bareSpans*later {
			t = bareTrace(i, whyNoRoom)
		}
		if len(t.Spans) > most {
			return
		}
		i.Trace = t
		most -= len(t.Spans)
	}
}

// traceNames returns a function that names the processes in the traces of a window, by VM and
// process. It looks up at most namedMost processes in each VM, and each of them once.
func (s *Source) traceNames() func(vm int) func(outcome.PID) string {
	known := make(map[int]map[outcome.PID]string)
	return func(vm int) func(outcome.PID) string {
		if known[vm] == nil {
			known[vm] = make(map[outcome.PID]string)
		}
		names, name := known[vm], s.namerOf(vm)
		return func(p outcome.PID) string {
			if text, ok := names[p]; ok || p == 0 || len(names) == namedMost {
				return text
			}
			var n procname.Name
			n, _ = name(p)
			names[p] = n.String()
			return names[p]
		}
	}
}

// nameTrace sets the names of the processes in a trace.
func nameTrace(t *trace.Trace, name func(outcome.PID) string) {
	for i := range t.Spans {
		s := &t.Spans[i]
		s.Name, s.OtherName = name(s.Process), name(s.Other)
	}
}
