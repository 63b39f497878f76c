package erlang

import (
	"bytes"
	"strings"
	"sync"
)

// lineWriter splits written text into lines.
type lineWriter struct {
	partial []byte
}

func (w *lineWriter) each(p []byte, line func(string)) {
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			w.partial = append(w.partial, p...)
			return
		}
		line(string(append(w.partial, p[:i]...)))
		w.partial, p = w.partial[:0], p[i+1:]
	}
}

// tailSize is the maximum number of bytes of a program's output in an error.
const tailSize = 2048

// tail is a Writer that keeps the end of the written text.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if cut := len(t.text) - tailSize; cut > 0 {
		t.text = append(t.text[:0], t.text[cut:]...)
	}
	return len(p), nil
}

// suffix returns the text to append to an error: a line feed and the written text, or "".
func (t *tail) suffix() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.text))
	if text == "" {
		return ""
	}
	return "\n" + text
}
