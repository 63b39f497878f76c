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

// Each label is where its name is drawn.
func TestDrawLabels(t *testing.T) {
	d := Draw(mustParse(t, drawn))
	var got []string
	for _, l := range d.Names {
		got = append(got, l.Name+" "+d.Rows[l.Row][l.Column:l.Column+l.Length])
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
