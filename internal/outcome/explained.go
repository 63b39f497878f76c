package outcome

import (
	"cmp"
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
	if err := o.record.read(o.collector.Events); err != nil {
		return err
	}
	if lost := o.record.takeLost(); lost > 0 && !s.toldUnrecorded {
		s.toldUnrecorded = true
		s.note("%d events were lost that would explain slow instances: where they are missing, time is unexplained", lost)
	}
	names, spans := s.traceNames(), 0
	for _, i := range worstExplained(st, instances) {
		at := &instances[i]
		spec := st.spec(at.Outcome)
		t := o.record.explain(explain.Instance{
			VM: at.VM.PID, Outcome: o.collector.Outcome(spec.kernelID()), ID: at.ID, Start: at.Start, End: at.End, Owner: at.Process,
		})
		if t == nil || spans+len(t.Spans) > MaxSpans {
			continue
		}
		spans += len(t.Spans)
		nameTrace(t, names(at.VM.PID))
		at.Trace = t
	}
	o.record.forget(w.To - s.longestExplained(o) - int64(w.Duration()))
	return nil
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
// outcome and VM.
func worstExplained(st *stage, instances []Instance) []int {
	var worst []int
	for i := range instances {
		if spec := st.spec(instances[i].Outcome); spec != nil && spec.Explain {
			worst = append(worst, i)
		}
	}
	slices.SortFunc(worst, func(i, j int) int { return instances[i].CompareWorst(&instances[j]) })
	type key struct {
		outcome string
		vm      VM
	}
	taken := make(map[key]int)
	return slices.DeleteFunc(worst, func(i int) bool {
		k := key{instances[i].Outcome, instances[i].VM}
		taken[k]++
		return taken[k] > MaxWorst
	})
}

// CompareWorst is less than 0 where an instance is worse than another one: timeouts
// before failures before successes, and among each the slowest.
func (i *Instance) CompareWorst(j *Instance) int {
	return cmp.Or(-cmp.Compare(i.Status, j.Status), -cmp.Compare(i.Elapsed(), j.Elapsed()), cmp.Compare(i.End, j.End), cmp.Compare(i.ID, j.ID))
}

// traceNames returns what names the processes in the traces of a window, by the pids of
// the VMs. It names so many of each VM at most, and each once.
func (s *VMSource) traceNames() func(vm int) func(PID) string {
	known := make(map[int]map[PID]string)
	for pid := range s.vms {
		s.namerOf(pid) // which begins to open it: the names are there when they are wanted
	}
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
