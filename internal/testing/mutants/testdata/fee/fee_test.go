package fee

import "testing"

func check(t *testing.T, fees map[int]int) {
	t.Helper()
	for age, want := range fees {
		if got := Of(age); got != want {
			t.Errorf("%d years: %d, want %d", age, got, want)
		}
	}
}

func TestWeak(t *testing.T) { check(t, map[int]int{3: 6, 30: 10}) }

func TestStrong(t *testing.T) { check(t, map[int]int{17: 6, 18: 10}) }

func TestBroken(t *testing.T) { check(t, map[int]int{3: 7}) }
