package erlang

import (
	"bytes"
	"strings"
	"sync"
)

// lineWriter cuts what is written into lines.
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

// tailSize is how much of a program's last words an error repeats.
const tailSize = 2048

// tail is a Writer that remembers the end of what was written.
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

// suffix is what an error may end with: the text on lines of its own, if any.
func (t *tail) suffix() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.text))
	if text == "" {
		return ""
	}
	return "\n" + text
}
