package vmsource

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// One user's executables leave a turn to others, and a user who has taken little time comes first.
func TestTurnsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, other = 1, 2
		all := newTurns()
		for range 100 {
			go func() { _ = all.do(t.Context(), many, func() { time.Sleep(8 * time.Second) }) }()
		}
		synctest.Wait()
		if all.taken[many] != maxTurnsOfUser {
			t.Errorf("%d turns of one user", all.taken[many])
		}
		for range 5 {
			began := time.Now()
			if err := all.do(t.Context(), other, func() { time.Sleep(time.Second) }); err != nil || time.Since(began) != time.Second {
				t.Errorf("%v, after %v", err, time.Since(began))
			}
		}
		time.Sleep(time.Hour)
		if len(all.waiting) != 0 || all.taken[many] != 0 {
			t.Errorf("%d wait, %d are taken", len(all.waiting), all.taken[many])
		}
	})
}

// With several users the next turn goes to the one who has used least. Requests that are given up take
// none.
func TestNextTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTurns()
		var order []int
		take := func(ctx context.Context, user int, d time.Duration) {
			go func() { _ = all.do(ctx, user, func() { order = append(order, user); time.Sleep(d) }) }()
			synctest.Wait()
		}
		take(t.Context(), 1, 10*time.Second)
		take(t.Context(), 2, 10*time.Second)
		take(t.Context(), 3, time.Second)
		take(t.Context(), 4, 2*time.Second)
		given, cancel := context.WithCancelCause(t.Context())
		take(given, 5, time.Second)
		take(t.Context(), 3, 10*time.Second)
		take(t.Context(), 6, time.Second)
		cancel(errors.New("enough"))
		synctest.Wait()
		time.Sleep(time.Minute)
		want := []int{1, 2, 3, 4, 6, 3}
		if len(order) != len(want) {
			t.Fatalf("order %v, want %v", order, want)
		}
		for i := range want {
			if order[i] != want[i] {
				t.Fatalf("order %v, want %v", order, want)
			}
		}
	})
}

// What a user has taken counts less as time passes, and is forgotten in the end.
func TestTurnsForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTurns()
		take := func(user int, d time.Duration) {
			if err := all.do(t.Context(), user, func() { time.Sleep(d) }); err != nil {
				t.Error(err)
			}
		}
		take(1, 8*time.Second)
		take(2, 3*time.Second)
		time.Sleep(2 * spentHalf)
		take(3, 4*time.Second)
		if spent := all.spent[1]; spent < time.Second || spent > 3*time.Second {
			t.Errorf("%v of 8s are left after two halvings", spent)
		}
		if all.spent[3] != 4*time.Second {
			t.Errorf("%v of 4s that were just taken", all.spent[3])
		}
		time.Sleep(time.Hour * 24)
		take(4, time.Second)
		if len(all.spent) != 1 || len(all.taken) != 0 {
			t.Errorf("after a day: %v, %v", all.spent, all.taken)
		}
		for user := range 3 * spentMost {
			take(user, time.Millisecond)
		}
		if len(all.spent) > spentMost {
			t.Errorf("%d users are remembered", len(all.spent))
		}
	})
}

// A user who took much time long ago waits no longer for one who takes much now.
func TestTurnsForgive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTurns()
		take := func(user int, d time.Duration) { _ = all.do(t.Context(), user, func() { time.Sleep(d) }) }
		take(1, 8*time.Second)
		time.Sleep(12 * spentHalf)
		take(2, time.Second)
		var order []int
		for _, user := range []int{4, 4, 5, 5} {
			go take(user, 10*time.Second)
		}
		synctest.Wait()
		for _, user := range []int{2, 1} {
			go func() { _ = all.do(t.Context(), user, func() { order = append(order, user) }) }()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		if len(order) != 2 || order[0] != 1 {
			t.Errorf("the order is %v", order)
		}
	})
}
