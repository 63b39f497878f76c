package bpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
)

// roomsMost is ROOMS of room.bpf.h.
const roomsMost = 128

// reserved is the part of the room that is for VMs of unknown users.
const reserved = 16

// rooms are the shares of accounts in the room for open instances and their queues.
type rooms struct {
	ofAccount map[int]uint32 // indexes of rooms
	ofUser    map[int]uint32 // as the programs know them
}

// ShareRoom divides the room for open instances, and for their queues, evenly among accounts. It takes
// the account of each user whose VMs are observed; users are as in [Collector.UserHits]. The VMs of
// an account have its share together. A sixteenth of the room is not divided: the VMs of all other
// users have it together, such as a VM that has just started. Without accounts they have all of the
// room. An instance for which the share has no room counts as MapFull.
//
// If a share becomes smaller, what is open in it stays open.
func (c *Collector) ShareRoom(accounts map[int]int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	wanted := make(map[int]bool)
	for _, account := range accounts {
		wanted[account] = true
	}
	c.leaveRooms(wanted)
	for account := range wanted {
		c.giveRoom(account)
	}
	c.divideRoom(len(wanted))
	return c.setRoomUsers(accounts)
}

// A divided is a map of the kernel that is divided into rooms.
type divided struct {
	rooms  []kernelRoom
	places int // in all rooms
}

func (c *Collector) dividedMaps() []divided {
	return []divided{{c.memory.rooms, c.opts.OpenSpans}, {c.memory.queueRooms, c.opts.Queues}}
}

// divideRoom sets the limits of rooms for this number of accounts. If there are more accounts than rooms,
// some have none.
func (c *Collector) divideRoom(accounts int) {
	for _, d := range c.dividedMaps() {
		unknown := d.places
		if accounts > 0 {
			unknown = d.places / reserved
		}
		limitRoom(d, 0, unknown)
		for _, at := range c.rooms.ofAccount {
			limitRoom(d, at, (d.places-unknown)/accounts)
		}
	}
}

func limitRoom(d divided, at uint32, places int) {
	atomic.StoreInt64(&d.rooms[at].Limit, int64(places))
}

// leaveRooms takes the rooms of the accounts that are no longer wanted.
func (c *Collector) leaveRooms(wanted map[int]bool) {
	for account, at := range c.rooms.ofAccount {
		if !wanted[account] {
			delete(c.rooms.ofAccount, account)
			for _, d := range c.dividedMaps() {
				limitRoom(d, at, 0)
			}
		}
	}
}

// giveRoom gives an account an empty room, if it has none and there is one.
func (c *Collector) giveRoom(account int) {
	if _, ok := c.rooms.ofAccount[account]; ok {
		return
	}
	if at, ok := c.freeRoom(); ok {
		c.rooms.ofAccount[account] = at
	}
}

// freeRoom returns the index of an empty room that no account has.
func (c *Collector) freeRoom() (at uint32, ok bool) {
	taken := slices.Collect(maps.Values(c.rooms.ofAccount))
	for at := uint32(1); at < roomsMost; at++ {
		if !slices.Contains(taken, at) && c.isEmptyRoom(at) {
			return at, true
		}
	}
	return 0, false
}

func (c *Collector) isEmptyRoom(at uint32) bool {
	return !slices.ContainsFunc(c.dividedMaps(), func(d divided) bool { return atomic.LoadInt64(&d.rooms[at].Used) > 0 })
}

// setRoomUsers tells the programs the rooms of users. The account itself is a user too.
func (c *Collector) setRoomUsers(accounts map[int]int) error {
	ofUser := make(map[int]uint32)
	for user, account := range accounts {
		ofUser[user] = c.rooms.ofAccount[account]
		ofUser[account] = c.rooms.ofAccount[account]
	}
	var errs []error
	for user := range c.rooms.ofUser {
		if _, ok := ofUser[user]; !ok {
			errs = append(errs, c.maps.RoomUsers.Delete(uint32(user)))
		}
	}
	for user, at := range ofUser {
		if old, ok := c.rooms.ofUser[user]; ok && old == at {
			continue
		}
		if err := c.maps.RoomUsers.Put(uint32(user), at); err != nil {
			errs = append(errs, err)
			delete(ofUser, user)
		}
	}
	c.rooms.ofUser = ofUser
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("share the room for open spans: %w", err)
	}
	return nil
}

// isCrowdedWithEnded reports whether a room is nearly full and has instances that have ended. The programs
// make room then, see was_crowded.
func (c *Collector) isCrowdedWithEnded() bool {
	for i := range c.memory.rooms {
		r := &c.memory.rooms[i]
		if r.Ended > 0 && atomic.LoadInt64(&r.Used)*4 > r.Limit*3 {
			return true
		}
	}
	return false
}
