package intake

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// maxLine is the longest line of the tests.
const maxLine = 1023

// split returns the lines of a stream, and the rest at its end.
func split(t interface{ Fatal(...any) }, r io.Reader) (lines []string, rest string) {
	s := NewSplitter(maxLine)
	for {
		err := s.Fill(r)
		for {
			text, ok := s.Next()
			if !ok {
				break
			}
			lines = append(lines, string(text))
		}
		if errors.Is(err, io.EOF) {
			return lines, string(s.Rest())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A stream is cut into the same lines however it arrives. If a line is too long, its beginning is
// returned, with more bytes than allowed.
func TestSplitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOf(rapid.OneOf(
			rapid.IntRange(0, 100), rapid.IntRange(maxLine-2, maxLine+3), rapid.IntRange(0, 100_000),
		)).Draw(t, "lengths")
		var stream []byte
		var want []string
		for i, n := range lengths {
			line := strings.Repeat(string(rune('a'+i%26)), n)
			stream = append(append(stream, line...), '\n')
			want = append(want, line)
		}
		half := strings.Repeat("x", rapid.IntRange(0, maxLine).Draw(t, "half"))
		stream = append(stream, half...)
		var r io.Reader = bytes.NewReader(stream)
		if rapid.Bool().Draw(t, "halves") {
			r = iotest.HalfReader(r)
		}
		got, rest := split(t, r)
		same := func(got, want string) bool {
			return got == want || len(got) > maxLine && strings.HasPrefix(want, got)
		}
		if !slices.EqualFunc(got, want, same) || rest != half {
			t.Fatalf("%d lines and a rest of %d bytes, want %d and %d", len(got), len(rest), len(want), len(half))
		}
	})
}

// The longest allowed line may arrive byte by byte, and may end with a carriage return.
func TestSplitterLongest(t *testing.T) {
	line := strings.Repeat("x", maxLine) + "\r"
	got, rest := split(t, iotest.OneByteReader(strings.NewReader(line+"\nafter\n")))
	if !slices.Equal(got, []string{line, "after"}) || rest != "" {
		t.Errorf("%q, %q", got, rest)
	}
}

// A line that never ends is returned once, and its remainder is not treated as a line.
func TestSplitterEndless(t *testing.T) {
	got, rest := split(t, strings.NewReader(strings.Repeat("x", 1<<20)))
	if len(got) != 1 || rest != "" {
		t.Errorf("%d lines, %q", len(got), rest)
	}
}
