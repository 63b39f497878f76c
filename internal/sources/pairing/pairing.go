// Package pairing makes outcome instances from the events of a VM. It finds the start of each end
// according to a [dtrace.Rule], and the timeouts in between.
// It has no clock: time passes with the events, and with [Engine.Advance]. So the result depends
// only on the events, however time is divided into windows. The package specifies how the
// programs in the kernel must count, and tests compare them with it.
// An instance ends once. An instance that is open at start + dMax has timed out, and a later end
// is late. An end exactly at that time is in time. Loss is never a timeout: an instance that is
// given up before it ends becomes [Unpaired] or [Cut]. Dropped events count neither as starts nor
// as ends.
package pairing

import (
	"time"

	"github.com/beamscope/beamscope/dtrace"
)

// Grace is the longest duration of a send. A message whose start was at most this long before a
// fetch may not have been there yet.
const Grace = 100 * time.Microsecond

// staleMost is the number of entries of a queue that are examined for one that can still end. The
// kernel examines as many, because its loops must be short.
const staleMost = 8

// A Config describes how events are paired.
type Config struct {
	Pairing dtrace.Pairing
	DMax    time.Duration // maximum delay of a success

	Via   bool // instances pass through via events, with FIFO only
	Arm   bool // a start counts only if the note of its key matches it
	Loose bool // ends without a start are dropped instead of counted as orphans

	// Overtaken means that an end may come before its start, see dtrace.Rule.
	Overtaken bool

	// Synced means that receivers fetch everything at once, and that events show when they have
	// done so: sync events and, with Via, ends. With FIFO only.
	Synced bool

	// Selective means that an end may belong to any instance of its queue. It is assigned to the
	// oldest one. The instance is [Unpaired] if the queue has not been empty for longer than
	// DMax, because after one instance that no end takes, all others would be wrong. An instance
	// that times out is also Unpaired if an end has taken an instance since the queue was last
	// empty, because that end may have belonged to this one. With FIFO only.
	Selective bool

	// Remember is the time for which the engine remembers instances that have timed out, so that it
	// recognises their ends as late. It keeps notes of arm events and the last fetches of keys for
	// the same time. 0 means forever.
	Remember time.Duration

	// Room limits the data that engines keep: instances that are open or remembered, notes, and the
	// keys of receivers that fetch, if the rule has Sync. Starts without room are lost. nil: no
	// limit.
	Room *Room
}

// A Room is the common capacity of all engines that share it.
type Room struct{ left int }

// NewRoom returns a room for a number of instances, notes and keys.
func NewRoom(most int) *Room { return &Room{most} }

// Left returns the remaining capacity.
func (r *Room) Left() int { return r.left }

// ConfigOf returns how the events of a rule are paired. It does not set the limits on memory.
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

// Overtaking is the longest time by which an end may come before its start, if ends may overtake
// starts.
const Overtaking = time.Second

// A Kind is the role of an event in an outcome.
type Kind uint8

// The kinds of events, see [dtrace.Rule].
const (
	Start Kind = iota
	Via
	Arm
	End
	Sync
)

// A Token contains the seq_trace data of a message: together with the key it identifies the
// message. The zero Token is none.
type Token struct{ Label, Cur int64 }

// An Event is an event to be paired.
type Event struct {
	Kind  Kind
	Key   string
	Time  int64 // nanoseconds
	Token Token // if the event shows one; only FIFO uses it

	// Message identifies the messages that wait for one receiver, if it is known: the address of
	// each message in the VM. Either all events of a kind have it, or it is 0 for all. Only FIFO
	// uses it. With Via, starts have none.
	Message uint64

	Text   string // for Arm: the text that starts must have; for Start: its text
	Amount uint64 // for End: the amount to add up
}

// A Fact is a result of events. It belongs to the window that contains its time.
type Fact struct {
	What     What
	Key      string
	Time     int64
	Start    int64  // for Succeeded, TimedOut, Unpaired and Cut: the start of the instance
	Amount   uint64 // for Succeeded: the amount of its end
	Inferred bool   // for Succeeded: start and end were paired by order
}

// A What is a kind of fact: what happened to an event or an instance.
type What uint8

// The kinds of facts.
const (
	Started   What = iota // a start
	Ended                 // an end
	Succeeded             // an instance ended in time
	TimedOut              // an instance was still open at start + dMax
	Orphaned              // an end whose start was not seen
	Late                  // an end of an instance that had timed out
	Dropped               // an event that does not count
	Unpaired              // an instance that was given up: its end cannot be distinguished from that of another
	NoRoom                // an event without room
	Cut                   // an instance given up by [Engine.Cut] or [Engine.Lose]
)
