package diagram

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// An Error is something wrong at a place of the source.
type Error struct {
	Pos     Pos
	Length  int    // length of the wrong text in characters, at least 1
	Message string // the error, and what was expected
	Line    string // the line of the source, without its end

	lexical bool // the error is an invalid character
}

// Error returns three lines: place and message, the line of the source, and carets below the wrong
// text. A long line is cut to the part around the place.
func (e *Error) Error() string {
	return fmt.Sprintf("%d:%d: %s", e.Pos.Line, e.Pos.Column, e.Excerpt())
}

// Excerpt returns the same lines without the place.
func (e *Error) Excerpt() string {
	line, column := e.excerpt()
	return fmt.Sprintf("%s\n%s\n%s", e.Message, string(line), marker(line, column, e.Length))
}

// around is the number of characters of a long line that are shown on each side of the error
// position.
const around = 60

// excerpt returns the part of the line to show, and the column of the error position in that
// part, counted from 1.
func (e *Error) excerpt() (line []rune, column int) {
	line, column = []rune(e.Line), e.Pos.Column
	if to := column + around; to < len(line) {
		line = append(line[:to:to], '…')
	}
	if from := column - 1 - around; from > 0 {
		line, column = append([]rune{'…'}, line[min(from, len(line)):]...), around+2
	}
	return line, column
}

// marker returns carets below the wrong text, one for each terminal column that the text
// occupies. It copies tabs from the line, so that the carets are aligned with the text.
func marker(line []rune, column, length int) string {
	from := min(column-1, len(line))
	to := min(from+length, len(line))
	var b strings.Builder
	for i, part := range strings.Split(string(line[:from]), "\t") {
		if i > 0 {
			b.WriteByte('\t')
		}
		b.WriteString(strings.Repeat(" ", columns(part)))
	}
	b.WriteString(strings.Repeat("^", max(1, columns(string(line[from:to]))))) // at least one caret: the position may be just after the line
	return b.String()
}

// Errors contains the errors of a source, ordered by position: at least 1 and at most 20.
type Errors []*Error

// Error returns the texts of all errors, one after the other.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// maxErrors is the number of errors to report at once.
const maxErrors = 20

// A reporter collects errors of one source.
type reporter struct {
	lines  []string
	errors Errors
}

func newReporter(source string) *reporter {
	lines := strings.Split(source, "\n")
	for i, l := range lines {
		lines[i] = strings.Map(printable, strings.ToValidUTF8(strings.TrimSuffix(l, "\r"), "\uFFFD"))
	}
	return &reporter{lines: lines}
}

// printable replaces characters that a terminal may interpret as control codes.
func printable(r rune) rune {
	if unicode.IsPrint(r) || r == '\t' {
		return r
	}
	return unicode.ReplacementChar
}

// report adds an error at pos. word is the wrong text, or "" if there is none.
func (r *reporter) report(pos Pos, word, format string, args ...any) {
	e := &Error{Pos: pos, Length: max(1, utf8.RuneCountInString(word)), Message: fmt.Sprintf(format, args...)}
	if pos.Line >= 1 && pos.Line <= len(r.lines) {
		e.Line = r.lines[pos.Line-1]
	}
	r.errors = append(r.errors, e)
}

// err returns the errors in order, or nil if there are none.
func (r *reporter) err() error {
	if len(r.errors) == 0 {
		return nil
	}
	slices.SortStableFunc(r.errors, func(a, b *Error) int {
		if a.Pos.Line != b.Pos.Line {
			return a.Pos.Line - b.Pos.Line
		}
		return a.Pos.Column - b.Pos.Column
	})
	return r.errors[:min(len(r.errors), maxErrors)]
}
