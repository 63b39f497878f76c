package bpf

import "testing"

// An account gets an empty room only. What a former account has left in a room counts for nobody else.
func TestRoomsAreReusedWhenEmpty(t *testing.T) {
	c := &Collector{
		opts:   Options{OpenSpans: 1600, Queues: 3200},
		memory: &mappings{rooms: make([]kernelRoom, roomsMost), queueRooms: make([]kernelRoom, roomsMost)},
		rooms:  rooms{ofAccount: make(map[int]uint32)},
	}
	share := func(accounts ...int) {
		wanted := make(map[int]bool)
		for _, a := range accounts {
			wanted[a] = true
		}
		c.leaveRooms(wanted)
		for _, a := range accounts {
			c.giveRoom(a)
		}
		c.divideRoom(len(accounts))
	}
	check := func(at uint32, spans, queues int64) {
		t.Helper()
		if s, q := c.memory.rooms[at].Limit, c.memory.queueRooms[at].Limit; s != spans || q != queues {
			t.Errorf("room %d has %d places for spans and %d for queues, want %d and %d", at, s, q, spans, queues)
		}
	}

	share()
	check(0, 1600, 3200)
	share(7, 8)
	first := c.rooms.ofAccount[7]
	check(0, 100, 200)
	check(first, 750, 1500)

	c.memory.queueRooms[first].Used = 1
	share(8, 9)
	check(first, 0, 0)
	if c.rooms.ofAccount[9] == first {
		t.Error("an account has a room that is not empty")
	}
	share(8, 9, 10)
	check(c.rooms.ofAccount[10], 500, 1000)
	if c.rooms.ofAccount[10] == first {
		t.Error("another account has a room that is not empty")
	}
	c.memory.queueRooms[first].Used = 0
	share(8, 11)
	if got := c.rooms.ofAccount[11]; got != first {
		t.Errorf("an account has room %d, want the first empty one, %d", got, first)
	}
}

// If there are more accounts than rooms, the others use the reserve.
func TestMoreAccountsThanRooms(t *testing.T) {
	c := &Collector{
		memory: &mappings{rooms: make([]kernelRoom, roomsMost), queueRooms: make([]kernelRoom, roomsMost)},
		rooms:  rooms{ofAccount: make(map[int]uint32)},
	}
	for account := range 2 * roomsMost {
		c.giveRoom(account)
	}
	if got := len(c.rooms.ofAccount); got != roomsMost-1 {
		t.Errorf("%d accounts have rooms, want %d", got, roomsMost-1)
	}
	if got := c.rooms.ofAccount[2*roomsMost-1]; got != 0 {
		t.Errorf("an account too many has room %d, want 0", got)
	}
}
