package diagram

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const drawn = `
front = parse -> f:lookup(cache, backend -> a:w(decode, s:check) -> x) -> done;
check = p:kind[0.9, 0.1](page, error_page);
`

func TestASCII(t *testing.T) {
	want := `front = -->(parse)-->f:lookup--+-->(cache)---------------------------------+-->(done)--
                               |                                           |
                               +-->(backend)-->a:w--+-->(decode)--+-->(x)--+
                                                    |             |
                                                    +-->[check]---+

check = -->p:kind--+-0.9->(page)--------+--
                   |                    |
                   +-0.1->(error_page)--+
`
	if diff := cmp.Diff(want, ASCII(mustParse(t, drawn))); diff != "" {
		t.Errorf("%s\n%s", diff, ASCII(mustParse(t, drawn)))
	}
}

func TestASCIIOfTimes(t *testing.T) {
	want := `x = -->t:slow[1.5ms]--+-->(a)-->(b)--+-->r:again[3, 20ms]--+-->(c)--+--
`
	if diff := cmp.Diff(want, ASCII(mustParse(t, "x = t:slow[1.5ms](a -> b) -> r:again[3, 20ms](c)"))); diff != "" {
		t.Error(diff)
	}
}

// In a drawing, a name occupies as many columns as a terminal uses to display it.
func TestASCIIOfWideNames(t *testing.T) {
	want := `入口 = -->(größe)-->f:引く--+-->(ключ)--+-->(終)--
                            |           |
                            +-->(日本)--+
`
	got := ASCII(mustParse(t, "入口 = größe -> f:引く(ключ, 日本) -> 終"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", diff, got)
	}
	var labels []string
	d := Draw(mustParse(t, "入口 = größe -> f:引く(ключ, 日本) -> 終"))
	for _, l := range d.Names {
		labels = append(labels, d.Rows[l.Row][l.Start:l.End])
	}
	if diff := cmp.Diff([]string{"入口", "(größe)", "f:引く", "(ключ)", "(日本)", "(終)"}, labels); diff != "" {
		t.Error(diff)
	}
}

// The carets are below the wrong text, even after wide characters.
func TestCaretsBelowWideNames(t *testing.T) {
	_, err := Parse("入口 = größe -> s:日本")
	want := "1:17: s:日本 is not defined\n入口 = größe -> s:日本\n                  ^^^^"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}

// The position of each label contains the drawn name.
func TestDrawLabels(t *testing.T) {
	d := Draw(mustParse(t, drawn))
	var got []string
	for _, l := range d.Names {
		got = append(got, l.Name+" "+d.Rows[l.Row][l.Start:l.End])
	}
	want := []string{
		"front front", "parse (parse)", "lookup f:lookup", "cache (cache)", "backend (backend)", "w a:w", "decode (decode)",
		"check [check]", "x (x)", "done (done)",
		"check check", "kind p:kind", "page (page)", "error_page (error_page)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSVG(t *testing.T) {
	svg := SVG(mustParse(t, drawn))
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	for element, want := range map[string]int{"<ellipse": 8, "<rect": 1, "class=\"operator\"": 3, "class=\"weight\"": 2} {
		if got := strings.Count(svg, element); got != want {
			t.Errorf("%d of %s, want %d", got, element, want)
		}
	}
}

// Probabilities are drawn with four digits.
func TestSVGWeights(t *testing.T) {
	svg := SVG(mustParse(t, "x = p:a[0.12346, 0.87654](b, c)"))
	for _, want := range []string{">0.1235<", ">0.8765<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
}

// An error at the end of the source has the length 1.
func TestLengthOfErrors(t *testing.T) {
	for source, want := range map[string]int{"a = b ->": 1, "a = s:größe": 5} {
		_, err := Parse(source)
		var errs Errors
		if !errors.As(err, &errs) || errs[0].Length != want {
			t.Errorf("%q: %v, want a length of %d", source, err, want)
		}
	}
}
