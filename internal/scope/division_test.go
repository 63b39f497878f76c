package scope

import (
	"strings"
	"testing"
)

// A condition that divides by 0 says nothing about a window, and is refused.
func TestConditionDividesByZero(t *testing.T) {
	for _, text := range []string{"0/0 != 0 || n < 0", "1 % 0 == n", "n/-0.0 > 1"} {
		if _, err := parseCondition(text); err == nil || !strings.Contains(err.Error(), "a division by 0 has no place in it") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := parseCondition("failed/n > 0.1"); err != nil {
		t.Error(err)
	}
}
