package eval

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestPlot(t *testing.T) {
	d, err := Model("0.5*wait(20ms)", grid(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(Plot("p", d), "\n")
	if len(lines) != textHeight+4 || lines[0] != "p" || !strings.HasSuffix(lines[textHeight+2], "21ms") {
		t.Fatalf("%q", lines)
	}
	if lines[1] != "1.00 │" {
		t.Errorf("a probability of 1: %q", lines[1])
	}
	if !strings.Contains(lines[textHeight], "⣀⣀⣀") {
		t.Errorf("no line at 0: %q", lines[textHeight])
	}
}

func TestSVG(t *testing.T) {
	q := ask(t, "p = a -> b; q = a -> c;", map[string]string{"a": "exp(2ms)", "b": "uniform(1ms,5ms)", "c": "never"})
	r, err := Answer(q)
	if err != nil {
		t.Fatal(err)
	}
	svg := SVG(r)
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if strings.Count(svg, "<path") != 2 {
		t.Error("not two plots")
	}
}
