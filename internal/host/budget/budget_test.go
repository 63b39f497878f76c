package budget

import (
	"testing"
	"time"
)

// Work that takes long gets a limited share of the time in the long run. Work that takes little is
// done each second.
func TestBudget(t *testing.T) {
	for _, test := range []struct {
		each        time.Duration
		least, most int // of 1000 seconds
	}{
		{5 * time.Millisecond, 1000, 1000},
		{100 * time.Millisecond, 1000, 1000},
		{200 * time.Millisecond, 500, 506},
		{time.Second, 100, 102},
	} {
		now := int64(time.Hour)
		b := New(0.1, time.Second, now)
		done := 0
		for range 1000 {
			if b.Allows(now) {
				done++
				b.Spend(test.each)
			}
			now += int64(time.Second)
		}
		if done < test.least || done > test.most {
			t.Errorf("%v: done in %d of 1000 seconds, want %d to %d", test.each, done, test.least, test.most)
		}
	}
}

// A budget says how long it is empty, and when it is full again.
func TestWait(t *testing.T) {
	now := int64(time.Hour)
	b := New(0.25, time.Second, now)
	if !b.Full(now) || b.Wait(now) != 0 {
		t.Errorf("a new budget: full %v, wait %v", b.Full(now), b.Wait(now))
	}
	b.Spend(3 * time.Second)
	wait := b.Wait(now)
	if b.Allows(now+int64(wait)-int64(time.Millisecond)) || !b.Allows(now+int64(wait)+int64(time.Millisecond)) {
		t.Errorf("after %v the answer does not change", wait)
	}
	if b.Full(now+int64(11*time.Second)) || !b.Full(now+int64(13*time.Second)) {
		t.Error("it is full too early or too late")
	}
}
