// Package pairing makes outcome instances of the events of a VM: it finds the start
// that an end belongs to, as a [dtrace.Rule] says, and what times out in between.
//
// It knows no clock: time passes with the events that it is given, and with
// [Engine.Advance]. So what comes of events depends on nothing but these, however
// the time is cut into windows. It says how the programs in the kernel are to count,
// and is what they are compared with.
//
// An instance ends once. One that is open at start + dMax has timed out then, and an
// end that comes later is late; one exactly at that time is in time. What is lost is
// never a timeout: what is given up before it ends is told as [Unpaired] or [Cut].
// What was dropped counts neither as a start nor as an end.
package pairing

import (
	"time"

	"github.com/beamscope/beamscope/dtrace"
)

// BatchGap is how far apart the ends of one key are, at least, that come of messages
// fetched at different times.
const BatchGap = 100 * time.Microsecond

// A Config says how events are paired.
type Config struct {
	Pairing dtrace.Pairing
	DMax    time.Duration // maximum delay of a success

	Via   bool // instances pass through via events, with FIFO only
	Arm   bool // a start counts only where the note of its key says the same as it
	Loose bool // ends without a start are dropped, and are no orphans

	// Batched says that the events that end the first stage, the vias or else the
	// ends, tell of messages of which a process always fetches all that there are.
	// With FIFO only.
	Batched bool

	// Remember is how long instances that have timed out are remembered, so that
	// their ends are known to be late, and notes of arm events. 0: for ever.
	Remember time.Duration

	// Room is for what is kept: the instances that are open or remembered, and notes.
	// Where there is none left, starts find none. nil: there is always room.
	Room *Room
}

// A Room has place for so much, of all the engines that share it.
type Room struct{ left int }

// NewRoom returns a room for so many instances and notes.
func NewRoom(most int) *Room { return &Room{most} }

// Left returns how many more there is room for.
func (r *Room) Left() int { return r.left }

// ConfigOf returns how the events of a rule are paired. What bounds memory is left
// open.
func ConfigOf(r *dtrace.Rule, dMax time.Duration) Config {
	fifo := r.Pairing == dtrace.FIFO
	first := r.End // events that end the first stage
	if len(r.Via) > 0 {
		first = r.Via
	}
	return Config{
		Pairing: r.Pairing,
		DMax:    dMax,
		Via:     fifo && len(r.Via) > 0,
		Arm:     len(r.Arm) > 0,
		Loose:   r.Loose,
		Batched: fifo && queued(first),
	}
}

// queued reports whether events are nothing but messages that were fetched.
func queued(e dtrace.Expr) bool {
	for _, event := range e {
		if event.Probe.Name != "message__queued" {
			return false
		}
	}
	return len(e) > 0
}

// A Kind says what an event is to an outcome.
type Kind uint8

// The kinds of events, see [dtrace.Rule].
const (
	Start Kind = iota
	Via
	Arm
	End
)

// A Token is what seq_trace tells of a message: with the key it is that of one
// message alone. The zero Token is none.
type Token struct{ Label, Cur int64 }

// An Event is what is paired.
type Event struct {
	Kind   Kind
	Key    string
	Time   int64  // nanoseconds
	Token  Token  // where the event shows one; only FIFO looks at it
	Text   string // of Arm: what it arms for; of Start: what it has to be armed by
	Amount uint64 // of End: what it says is added up
}

// A Fact is what became of events. It belongs to the window that contains its time.
type Fact struct {
	What     What
	Key      string
	Time     int64
	Start    int64  // of Succeeded, TimedOut, Unpaired and Cut: when the instance started
	Amount   uint64 // of Succeeded: that of its end
	Inferred bool   // of Succeeded: start and end were paired by their order
}

// What says what a fact is.
type What uint8

// What becomes of events.
const (
	Started   What = iota // a start
	Ended                 // an end
	Succeeded             // an instance ended in time
	TimedOut              // an instance was still open at start + dMax
	Orphaned              // an end without a start that was seen
	Late                  // an end of an instance that had timed out
	Dropped               // an event that counts for nothing
	Unpaired              // an instance given up: its end can not be told from another's
	NoRoom                // an event for which there was no room
	Cut                   // an instance given up by [Engine.Cut] or [Engine.Lose]
)
