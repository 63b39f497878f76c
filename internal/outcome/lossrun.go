package outcome

import "fmt"

// A lossRun is windows one after the other in which events were lost that would explain.
type lossRun struct {
	windows int
	events  uint64
}

// next takes in what was lost in the next window, and returns what is to be said then, ""
// for nothing: when it begins, and when it is over how much it was, where that was not
// said yet.
func (r *lossRun) next(lost uint64) string {
	ended := *r
	if lost == 0 {
		*r = lossRun{}
		if ended.windows > 1 {
			return fmt.Sprintf("events that would explain slow instances were lost (%d, in %d windows); none any more", ended.events, ended.windows)
		}
		return ""
	}
	r.windows++
	r.events += lost
	if ended.windows > 0 {
		return ""
	}
	return fmt.Sprintf("events that would explain slow instances were lost (%d): where they are missing, time is unexplained", lost)
}
