package guard

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long is a limit that no call here exceeds.
const long = time.Hour

// Do returns the result of a function that answers in time.
func TestAnswers(t *testing.T) {
	var g Guard
	for range 2 * most {
		got, err := Do(t.Context(), &g, 1, long, func(context.Context) (int, error) { return 7, io.EOF })
		if got != 7 || !errors.Is(err, io.EOF) {
			t.Fatalf("%d, %v", got, err)
		}
	}
}

// Do abandons a call that does not answer. After several such calls it refuses further calls of
// that owner only. When the calls end, it accepts calls again.
func TestNoAnswer(t *testing.T) {
	var g Guard
	answer := make(chan struct{})
	hang := func(ctx context.Context) (int, error) {
		<-ctx.Done() // as if an inner deadline had expired
		<-answer
		return 0, nil
	}
	for i := range mostOfOwner {
		if _, err := Do(t.Context(), &g, 1, time.Nanosecond, hang); !errors.Is(err, ErrNoAnswer) {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	called := false
	call := func(context.Context) (bool, error) {
		called = true
		return true, nil
	}
	if _, err := Do(t.Context(), &g, 1, long, call); !errors.Is(err, ErrNoAnswer) || called {
		t.Errorf("one more of the owner: called %v, %v", called, err)
	}
	if ok, err := Do(t.Context(), &g, 2, long, call); !ok || err != nil {
		t.Errorf("another owner: %v", err)
	}
	close(answer)
	for g.full(1) { // the calls end soon
		time.Sleep(time.Millisecond)
	}
	if ok, err := Do(t.Context(), &g, 1, long, call); !ok || err != nil {
		t.Errorf("after the answers: %v", err)
	}
}

// The total of all owners is limited.
func TestLimitOfAllOwners(t *testing.T) {
	var g Guard
	answer := make(chan struct{})
	defer close(answer)
	for owner := range most/mostOfOwner + 1 {
		for range mostOfOwner {
			_, err := Do(t.Context(), &g, owner, time.Nanosecond, func(context.Context) (int, error) {
				<-answer
				return 0, nil
			})
			if !errors.Is(err, ErrNoAnswer) {
				t.Fatal(err)
			}
		}
	}
	if g.all != most {
		t.Errorf("%d calls were left behind, at most %d may be", g.all, most)
	}
}

// Do returns when its context ends, and closes a late result.
func TestCancelled(t *testing.T) {
	var g Guard
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	late := closer(make(chan struct{}))
	_, err := Do(ctx, &g, 1, long, func(ctx context.Context) (closer, error) {
		cancel(enough)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), enough) {
			t.Errorf("the call sees %v", context.Cause(ctx))
		}
		return late, nil
	})
	if err != nil && !errors.Is(err, enough) {
		t.Errorf("error %v, want %v", err, enough)
	}
	if err != nil {
		<-late
	}
	if _, err := Do(ctx, &g, 1, long, func(context.Context) (int, error) { return 0, nil }); !errors.Is(err, enough) {
		t.Errorf("done before: %v", err)
	}
}

type closer chan struct{}

func (c closer) Close() error {
	close(c)
	return nil
}
