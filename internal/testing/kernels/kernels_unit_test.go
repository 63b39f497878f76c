package kernels

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const told = "[ 1.0] Linux\r\nguest: spans: true\r\n" + Mark + `{"release":"6.12.9","arch":"amd64","checks":[{"subject":"spans","works":true,"found":"all"}]}` + "\r\n[ 2.0] off\r\n"
	r, err := parse(told)
	if err != nil {
		t.Fatal(err)
	}
	if r.Version() != "6.12" || !r.Check(Spans).Works || r.Check(Rules).Works {
		t.Errorf("%+v", r)
	}
	for _, console := range []string{"", "Kernel panic", Mark + "{"} {
		if _, err := parse(console); !errors.Is(err, ErrGuest) {
			t.Errorf("%q: %v", console, err)
		}
	}
}

// The rows are ordered by version number.
func TestTableOrder(t *testing.T) {
	table := Table([]Result{
		{Release: "6.12.9", Arch: "arm64", Stock: 25}, {Release: "6.12.9", Arch: "arm64"}, {Release: "7.2.1", Arch: "arm64"},
		{Release: "6.12.8", Arch: "amd64"}, {Release: "6.1.0", Arch: "amd64"},
	})
	var got []string
	for _, row := range strings.Split(table, "\n")[2:] {
		kernel, _, _ := strings.Cut(row, " | not tried")
		got = append(got, kernel)
	}
	want := []string{"| 6.1 | x86-64 | with probes", "| 6.12 | x86-64 | with probes", "| 6.12 | arm64 | with probes", "| 6.12 | arm64 | stock OTP 25", "| 7.2 | arm64 | with probes", ""}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A row shows for each subject whether it works, or that the guest did not try it.
func TestTableWords(t *testing.T) {
	table := Table([]Result{{Release: "6.12.9", Arch: "arm64", Checks: []Check{{Doctor, true, ""}, {Spans, false, "why"}}}})
	row := strings.Split(table, "\n")[2]
	if !strings.HasPrefix(row, "| 6.12 | arm64 | with probes | yes | no | not tried |") {
		t.Errorf("%q", row)
	}
	row = strings.Split(Table([]Result{{Release: "6.12.9", Arch: "arm64", Stock: 27, Checks: []Check{{Ring, true, ""}}}}), "\n")[2]
	if !strings.HasPrefix(row, "| 6.12 | arm64 | stock OTP 27 | not tried | no probes | yes |") {
		t.Errorf("%q", row)
	}
}

// The archive can be read by cpio(1): names and contents begin at multiples of four.
func TestImage(t *testing.T) {
	var out bytes.Buffer
	i := newImage(&out)
	i.file("/a/bc", 0o644, []byte("hello"))
	i.file("/a/d", 0o755, nil)
	if err := i.close(); err != nil {
		t.Fatal(err)
	}
	data := out.Bytes()
	var names []string
	for len(data) > 0 {
		if string(data[:6]) != "070701" {
			t.Fatalf("no header where one is due: %q", data)
		}
		size, length := field(t, data, 6), field(t, data, 11)
		names = append(names, string(data[110:110+length-1]))
		data = data[up(110+length)+up(size):]
	}
	want := []string{"a", "a/bc", "a/d", "TRAILER!!!"}
	if len(names) != len(want) {
		t.Fatalf("%q, want %q", names, want)
	}
	for n := range want {
		if names[n] != want[n] {
			t.Errorf("%q, want %q", names, want)
		}
	}
}

func up(n int) int { return (n + 3) &^ 3 }

// field reads field n of a header: numbers of eight digits behind the six of the magic.
func field(t *testing.T, header []byte, n int) int {
	t.Helper()
	v := 0
	for _, c := range header[6+8*n : 14+8*n] {
		d := bytes.IndexByte([]byte("0123456789ABCDEF"), c)
		if d < 0 {
			t.Fatalf("%q is no digit", c)
		}
		v = v*16 + d
	}
	return v
}
