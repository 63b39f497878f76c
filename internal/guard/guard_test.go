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

// What answers is as if it had been called.
func TestAnswers(t *testing.T) {
	var g Guard
	for range 2 * most {
		got, err := Do(t.Context(), &g, 1, long, func(context.Context) (int, error) { return 7, io.EOF })
		if got != 7 || !errors.Is(err, io.EOF) {
			t.Fatalf("%d, %v", got, err)
		}
	}
}

// What does not answer is given up, and refused after some times, of its owner only. When
// it answers after all, others are tried again.
func TestNoAnswer(t *testing.T) {
	var g Guard
	answer := make(chan struct{})
	hang := func(ctx context.Context) (int, error) {
		<-ctx.Done() // as a deadline inside would have it
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

// There is a limit for all owners together.
func TestMostOfAll(t *testing.T) {
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

// A context that is done ends the wait. What comes late is closed.
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
