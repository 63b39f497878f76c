package plot

import "github.com/beamscope/beamscope/dq"

// SlowerThanChosen describes an instance that took longer than a dMax that beamscope fitted.
const SlowerThanChosen = "slower than a limit that beamscope chose"

// Late is the word for instances that took longer than dMax: timeouts, or merely slower ones
// where beamscope fitted dMax itself.
func Late(fitted bool) string {
	if fitted {
		return "slower"
	}
	return "timeout"
}

// SlowerOnly reports whether all instances that did not succeed took longer than a dMax that
// beamscope chose.
func (s *Series) SlowerOnly() bool {
	return s.Fitted && s.TimedOut > 0 && dq.AtLeast(s.TimedOut, s.Failed)
}

// HowFailed describes, in a word or two, how the instances that did not succeed ended.
func (s *Series) HowFailed() string {
	switch {
	case s.TimedOut == 0:
		return "failure"
	case dq.AtLeast(s.TimedOut, s.Failed):
		return Late(s.Fitted)
	}
	return "failure+" + Late(s.Fitted)
}

// HowFailedInFull is HowFailed in full words, for legends and captions.
func (s *Series) HowFailedInFull() string {
	switch {
	case s.SlowerOnly():
		return SlowerThanChosen
	case s.Fitted && s.TimedOut > 0:
		return "failed, or " + SlowerThanChosen
	}
	return "failed or timed out"
}
