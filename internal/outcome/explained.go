package outcome

import (
	"slices"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain"
	"github.com/beamscope/beamscope/internal/procname"
	"github.com/beamscope/beamscope/internal/trace"
)

// explain explains the worst instances of a window that are to be, and forgets what no
// later one needs.
func (s *VMSource) explain(st *stage, w Window, instances []Instance) error {
	o := st.observation
	if !s.explains(o) {
		return o.record.skip(o.collector.Events)
	}
	off, err := o.collector.OffCPU()
	if err != nil {
		return err
	}
	o.record.off(off)
	if err := o.record.read(o.collector.Events); err != nil {
		return err
	}
	s.noteUnrecorded(o.record.takeLost())
	names := s.traceNames()
	traceAll(worstExplained(st, instances), instances, MaxSpans, func(i *Instance) *trace.Trace {
		in := explain.Instance{
			VM: i.VM.PID, Outcome: o.collector.Outcome(st.spec(i.Outcome).kernelID()), ID: i.ID, Start: i.Start, End: i.End, Owner: i.Process,
		}
		s.blindfold(o, &in)
		t := o.record.explain(in)
		nameTrace(t, names(i.VM.PID))
		return t
	})
	o.record.forget(w.To - s.longestExplained(o) - int64(w.Duration()))
	return nil
}

// whyUnscheduled is why little is known where the probes are missing that tell when processes
// run.
const whyUnscheduled = "whether it ran or waited is not known: process-in and process-out cannot be had of this VM"

// blindfold says what cannot be seen of the VM of an instance.
func (s *VMSource) blindfold(o *observation, i *explain.Instance) {
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

// noteUnwatched says, once, that there was no room to watch processes.
func (s *VMSource) noteUnwatched(o bpf.Others) {
	if o.Unwatched > 0 && !s.toldUnwatched {
		s.toldUnwatched = true
		s.note("there was no room to watch all processes that take part in spans: time that is behind the others is unexplained")
	}
}

// explains reports whether a stage of an observation has outcomes that are explained.
func (s *VMSource) explains(o *observation) bool { return s.longestExplained(o) > 0 }

// longestExplained returns the longest that an instance takes that is explained, in
// nanoseconds; 0 where none is.
func (s *VMSource) longestExplained(o *observation) int64 {
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

// spec returns the spec of an outcome, nil where it has none.
func (st *stage) spec(name string) *Spec {
	i := slices.IndexFunc(st.specs, func(s Spec) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &st.specs[i]
}

// worstExplained returns the indexes of the instances to explain: the worst of each
// outcome and VM, first the worst one of each.
func worstExplained(st *stage, instances []Instance) []int {
	var worst []int
	for i := range instances {
		if spec := st.spec(instances[i].Outcome); spec != nil && spec.Explain {
			worst = append(worst, i)
		}
	}
	slices.SortFunc(worst, func(i, j int) int { return instances[i].CompareWorst(&instances[j]) })
	ranks, byRank := make(ranking), make([][]int, MaxWorst)
	for _, i := range worst {
		if rank := ranks.next(&instances[i]); rank < MaxWorst {
			byRank[rank] = append(byRank[rank], i)
		}
	}
	return slices.Concat(byRank...)
}

// whyNoRoom is why an instance is not explained where there are too many.
const whyNoRoom = "more instances were to be explained than there is room for"

// bareSpans is how many spans a trace has at most that says only why it says no more.
const bareSpans = 2

// bareTrace is the trace of an instance of which all is unexplained for a reason.
func bareTrace(i *Instance, reason string) *trace.Trace {
	root := trace.Span{Parent: -1, Kind: trace.Root, Start: i.Start, End: max(i.Start, i.End), Process: i.Process}
	if root.Start == root.End {
		return &trace.Trace{Spans: []trace.Span{root}}
	}
	all := root
	all.Parent, all.Kind, all.Reason = 0, trace.Unexplained, reason
	return &trace.Trace{Spans: []trace.Span{root, all}}
}

// traceAll gives traces of at most so many spans together to instances, by their indexes
// in the order in which they are to have them. Where there is not enough room for what
// explains one, as the later ones shall at least have it said, it is unexplained.
func traceAll(order []int, instances []Instance, most int, explain func(*Instance) *trace.Trace) {
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

// traceNames returns what names the processes in the traces of a window, by the pids of
// the VMs. It names so many of each VM at most, and each once.
func (s *VMSource) traceNames() func(vm int) func(PID) string {
	known := make(map[int]map[PID]string)
	return func(vm int) func(PID) string {
		if known[vm] == nil {
			known[vm] = make(map[PID]string)
		}
		names, name := known[vm], s.namerOf(vm)
		return func(p PID) string {
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

// nameTrace names the processes in a trace.
func nameTrace(t *trace.Trace, name func(PID) string) {
	for i := range t.Spans {
		s := &t.Spans[i]
		s.Name, s.OtherName = name(s.Process), name(s.Other)
	}
}
