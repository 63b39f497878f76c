package ring

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// A topic is what a notice about a VM is about. A VM can have something else in the text each time,
// so each topic gives one notice for a VM, whatever its text.
type topic uint

const (
	tooLate   topic = 1 << iota // its memory answers late
	noNames                     // no room for its names
	noClasses                   // no room for its classes of failures
	manyNames                   // its user has too many names
	notShown                    // programs in the kernel do not see its spans
	forbidden                   // beamscope may not look for its ring
	oddLayout                   // its ring has an unknown layout
	tooLarge                    // its memory is too large
	unread                      // its ring is not read for another reason
)

// maxToldFull limits the number of reasons why there is no place that are remembered. There is one
// for each user, and users are many.
const maxToldFull = 256

// lossPeriod is the shortest time between two notices that records of a VM were lost.
const lossPeriod = time.Minute

// tell adds a notice about a VM, once for each topic.
func (s *Source) tell(st *station, about topic, format string, args ...any) {
	if st.told&about == 0 {
		st.told |= about
		s.notices.Add(format, args...)
	}
}

// noteUnread keeps the reason why the ring of a VM is not read, and gives a notice.
func (s *Source) noteUnread(st *station, err error) {
	st.unread = err.Error()
	s.tell(st, topicOf(err), "spans of %v: %v", st.id, err)
}

// topicOf returns the topic of the reason why a ring is not read.
func topicOf(err error) topic {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return forbidden
	case errors.Is(err, ErrLayout):
		return oddLayout
	case errors.Is(err, ErrTooLarge):
		return tooLarge
	default:
		return unread
	}
}

// noteLost says that records of a VM were lost, at most once in a lossPeriod. The number is that of
// all since the previous notice.
func (s *Source) noteLost(st *station, lost uint64) {
	st.lost += lost
	if st.lost == 0 || st.toldLost != 0 && s.now() < st.toldLost+int64(lossPeriod) {
		return
	}
	s.notices.Add("%v: its ring filled up before beamscope read it: %d records of spans are lost. It is read at up to %.0f records a second; the environment ring_slots of the application beamscope makes it larger",
		st.id, st.lost, s.rate(st.reading.user))
	st.lost, st.toldLost = 0, s.now()
}

// noteFull says, once, why later VMs have no place. If too many reasons are remembered, it does not.
func (s *Source) noteFull(why string) {
	if !s.toldFull[why] && len(s.toldFull) < maxToldFull {
		s.toldFull[why] = true
		s.notices.Add("%s: beamscope does not read the spans of later ones", why)
	}
}

// noteKernel adds notices about parts of the plan that are not possible. It remembers those about
// outcomes of the plan.
func (s *Source) noteKernel() {
	if s.cfg.Kernel != nil {
		return
	}
	told := make(map[string]bool)
	for _, spec := range s.schedule.Specs() {
		for what, wanted := range map[string]bool{
			"are not explained": spec.Explain, "do not fail when their process exits": spec.ExitFails, "are not grouped": spec.Group != "",
		} {
			if !wanted {
				continue
			}
			text := fmt.Sprintf("spans of %s %s: that needs eBPF, and a VM with probes or of a known build", spec.Name, what)
			if !s.toldSpecs[text] && !told[text] {
				s.notices.Add("%s", text)
			}
			told[text] = true
		}
	}
	s.toldSpecs = told
}
