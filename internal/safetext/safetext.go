// Package safetext writes text that may come from an observed program or from
// somebody else's file, so that a terminal shows it and does not obey it.
//
// There are two layers. [Fprintf] and [Fprintln] make each argument a single line
// of printable characters: use them wherever a format has arguments that this
// program did not make itself. [NewWriter] is the last line of defence: it wraps
// standard output and standard error and lets nothing through but printable
// characters, tabs and line feeds.
package safetext

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns s as one line of printable characters. Everything that
// [unicode.IsPrint] refuses is replaced by an escape: \n, \t and \r, \xhh for bytes
// that are no UTF-8, \uhhhh and \Uhhhhhhhh for control characters, for those that
// change the direction of writing, and for all others that are not visible.
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

// hidden reports whether a rune must not reach a terminal as it is. Bytes that are
// no UTF-8 decode to utf8.RuneError, which may also be in the text as such.
func hidden(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

// escape returns the escape of a rune. Except for \t, \n and \r within the basic
// plane it has the form that JSON has.
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

// Fprintf is [fmt.Fprintf] with arguments made safe: what an argument is formatted as
// is made a [Line].
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, format, safe(args)...)
}

// Fprintln is [fmt.Fprintln] with arguments made safe, as those of [Fprintf].
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

// An argument is formatted as what it holds, made a line.
type argument struct{ value any }

// Format implements [fmt.Formatter].
func (a argument) Format(f fmt.State, verb rune) {
	_, _ = io.WriteString(f, Line(fmt.Sprintf(fmt.FormatString(f, verb), a.value)))
}

// A Writer lets printable characters, tabs and line feeds through to another writer
// and replaces all else by escapes.
type Writer struct {
	w    io.Writer
	rest []byte // the beginning of a character whose end is still to come
	buf  []byte
}

// NewWriter returns a writer on w. It is meant for text and for JSON: the escapes are
// those of JSON, and in JSON what they replace is only ever within strings. It does not
// hold back anything but the beginning of a character that is not yet complete.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write implements [io.Writer].
func (w *Writer) Write(p []byte) (int, error) {
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

// appendEscape appends the escape that JSON has for a rune.
func appendEscape(b []byte, r rune) []byte {
	if r == utf8.RuneError {
		return append(b, "\ufffd"...)
	}
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return fmt.Appendf(b, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(b, `\u%04x`, r)
}
