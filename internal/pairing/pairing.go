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

// Grace is how long a send may be under way: what started so short a time before a
// receiver fetched all there was may not have been there.
const Grace = 100 * time.Microsecond

// staleMost is how many of a queue are looked at for one that can still end, as many as
// the kernel does, where loops are short.
const staleMost = 8

// A Config says how events are paired.
type Config struct {
	Pairing dtrace.Pairing
	DMax    time.Duration // maximum delay of a success

	Via   bool // instances pass through via events, with FIFO only
	Arm   bool // a start counts only where the note of its key says the same as it
	Loose bool // ends without a start are dropped, and are no orphans

	// Overtaken says that an end may come before its start: see dtrace.Rule.
	Overtaken bool

	// Synced says that receivers fetch all there is at a time, and that it is known
	// when they have done so: at sync events and, with Via, at ends. With FIFO only.
	Synced bool

	// Selective says that an end may be of any instance of its queue. The oldest one is
	// taken. It is [Unpaired] where the queue has not been empty for longer than DMax: after
	// one instance that no end takes, all others would be wrong. So is an instance that
	// times out in a queue from which an end has taken one since it was empty, as that may
	// have been this one. With FIFO only.
	Selective bool

	// Remember is how long instances that have timed out are remembered, so that
	// their ends are known to be late, notes of arm events, and when keys last
	// fetched. 0: for ever.
	Remember time.Duration

	// Room is for what is kept: the instances that are open or remembered, notes, and
	// the keys that fetch where that is synced. Where there is none left, starts find
	// none. nil: there is always room.
	Room *Room
}

// A Room has place for so much, of all the engines that share it.
type Room struct{ left int }

// NewRoom returns a room for so many instances, notes and keys.
func NewRoom(most int) *Room { return &Room{most} }

// Left returns how many more there is room for.
func (r *Room) Left() int { return r.left }

// ConfigOf returns how the events of a rule are paired. What bounds memory is left
// open.
func ConfigOf(r *dtrace.Rule, dMax time.Duration) Config {
	fifo := r.Pairing == dtrace.FIFO
	return Config{
		Pairing: r.Pairing,
		DMax:    dMax,
		Via:     fifo && len(r.Via) > 0,
		Arm:     len(r.Arm) > 0,
		Loose:   r.Loose,

		Overtaken: r.Overtaken,
		Synced:    fifo && r.Synced(),
		Selective: r.Selective(),
	}
}

// Overtaking is how long before its start an end may come that is of an instance all the
// same, where ends may overtake starts.
const Overtaking = time.Second

// A Kind says what an event is to an outcome.
type Kind uint8

// The kinds of events, see [dtrace.Rule].
const (
	Start Kind = iota
	Via
	Arm
	End
	Sync
)

// A Token is what seq_trace tells of a message: with the key it is that of one
// message alone. The zero Token is none.
type Token struct{ Label, Cur int64 }

// An Event is what is paired.
type Event struct {
	Kind  Kind
	Key   string
	Time  int64 // nanoseconds
	Token Token // where the event shows one; only FIFO looks at it

	// Message tells apart the messages that wait for one receiver, where it is known: the
	// address that the VM has each of them at. It is 0 of all events of a kind, or of none.
	// Only FIFO looks at it. With Via, starts have none.
	Message uint64

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
