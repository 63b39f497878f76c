package export

import "testing"

// A spreadsheet never interprets a name as a formula.
func TestCellIsNoFormula(t *testing.T) {
	for in, want := range map[string]string{
		`=cmd|' /C calc'!A0`: `'=cmd|' /C calc'!A0`,
		"+1":                 "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)",
		"\t=1": `\t=1`, "\r\n=1": `\r\n=1`,
		"pid 7": "pid 7", "shop@db1 (pid 41)": "shop@db1 (pid 41)", "": "",
	} {
		if got := cell(in); got != want {
			t.Errorf("cell(%q) = %q, want %q", in, got, want)
		}
	}
}
