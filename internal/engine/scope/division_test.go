package scope

import (
	"strings"
	"testing"
)

// A condition that divides by 0 is meaningless, and is rejected.
func TestConditionDividesByZero(t *testing.T) {
	for _, text := range []string{"0/0 != 0 || n < 0", "1 % 0 == n", "n/-0.0 > 1", "n/(1-1) > 2", "n > 0 && p99/(2*ms - 0.002*s) > 1", "5 % (3 % 3) == n", "n/(1 > 0 ? 0 : 1) > 1", "n/(0**2) > 1", "(n/(0/1) > 1) == true"} {
		if _, err := parseCondition(text); err == nil || !strings.Contains(err.Error(), "division by 0 ") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"failed/n > 0.1", "failed/(n-n) > 0.1", "p99/(20*ms) > 2", "n/(1-2) < 0", "n/(1/2) > 1"} {
		if _, err := parseCondition(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := parseCondition("ok > 3 || n/(1-1) > 2"); err == nil || !strings.Contains(err.Error(), "(in n / (1 - 1))") {
		t.Errorf("the error does not show where: %v", err)
	}
}
