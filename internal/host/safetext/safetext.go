// Package safetext makes text safe for a terminal if it may come from an observed program or from
// another person's file: the terminal shows it and does not execute it.
//
// There are two layers. [Fprintf] and [Fprintln] make each argument a single line of printable
// characters: use them if a format has arguments that this program did not make itself. [NewWriter]
// is the last line of defence: it wraps standard output and standard error, and passes only
// printable characters, tabs and line feeds.
package safetext

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns s as one line of printable characters. Escapes replace everything that
// [unicode.IsPrint] refuses: \n, \t and \r, \xhh for bytes that are no UTF-8, \uhhhh and \Uhhhhhhhh
// for control characters, for characters that change the direction of writing, and for all others
// that are not visible.
func Line(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case hidden(r):
			b.WriteString(escape(r))
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// hidden reports whether a rune must be escaped. Bytes that are not UTF-8 decode to utf8.RuneError,
// which the text may also contain itself.
func hidden(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

// escape returns the escape of a rune. In the basic plane, it has the form of JSON, apart from \t,
// \n and \r.
func escape(r rune) string {
	switch r {
	case '\t':
		return `\t`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case utf8.RuneError:
		return string(r)
	}
	if r > 0xffff {
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// Fprintf is like [fmt.Fprintf], but makes each formatted argument a [Line].
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, format, safe(args)...)
}

// Fprintln is like [fmt.Fprintln], but makes each argument a [Line].
func Fprintln(w io.Writer, args ...any) (int, error) {
	return fmt.Fprintln(w, safe(args)...)
}

// safe wraps arguments so that each is formatted as a line.
func safe(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = argument{a}
	}
	return out
}

// An argument formats its value as a single line.
type argument struct{ value any }

// Format implements [fmt.Formatter].
func (a argument) Format(f fmt.State, verb rune) {
	_, _ = io.WriteString(f, Line(fmt.Sprintf(fmt.FormatString(f, verb), a.value)))
}

// A Writer lets printable characters, tabs and line feeds through to another writer
// and replaces all else by escapes. Several goroutines may write at a time.
type Writer struct {
	mu   sync.Mutex
	w    io.Writer
	rest []byte // the beginning of a character that is not complete yet
	buf  []byte
}

// NewWriter returns a writer on w, for text and for JSON: the escapes are those of JSON, and in
// JSON the replaced characters are always within strings. It holds back only the beginning of an
// incomplete character.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write implements [io.Writer].
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := p
	if len(w.rest) > 0 {
		text = append(w.rest, p...)
	}
	w.buf = w.buf[:0]
	for len(text) > 0 && utf8.FullRune(text) {
		r, n := utf8.DecodeRune(text)
		if r == '\n' || r == '\t' || unicode.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			w.buf = append(w.buf, text[:n]...)
		} else {
			w.buf = appendEscape(w.buf, r)
		}
		text = text[n:]
	}
	w.rest = append([]byte(nil), text...)
	if _, err := w.w.Write(w.buf); err != nil {
		return 0, err
	}
	return len(p), nil
}

// appendEscape appends the JSON escape of a rune.
func appendEscape(b []byte, r rune) []byte {
	if r == utf8.RuneError {
		return append(b, "\ufffd"...)
	}
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return fmt.Appendf(b, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(b, `\u%04x`, r)
}
