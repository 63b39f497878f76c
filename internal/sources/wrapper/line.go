package wrapper

import (
	"bytes"
	"errors"
	"math"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

const (
	maxLine = 1023 // bytes of a line without its newline, as in the receiver for which the wrapper was written
	maxName = 255  // bytes of a name
)

// Reasons why a line is rejected.
var (
	errLong      = errors.New("longer than 1023 bytes")
	errHalf      = errors.New("the connection ended in the middle of it")
	errNoStatus  = errors.New("does not end in ;s:STATUS")
	errNoEnd     = errors.New("no ;e:END before the status")
	errNoBegin   = errors.New("no ;b:BEGIN before the end")
	errNoName    = errors.New("does not begin with n:NAME")
	errEmptyName = errors.New("the name is empty")
	errLongName  = errors.New("the name is longer than 255 bytes")
	errControl   = errors.New("a control character in the name")
	errStatus    = errors.New("the status is not ok, fa or to")
	errNumber    = errors.New("a time that is not a whole number of nanoseconds")
	errOverflow  = errors.New("a time beyond 2^63-1 ns")
	errBackwards = errors.New("it ends before it begins")
)

// A line is an instance as a wrapper sends it.
type line struct {
	name       []byte // part of the parsed text
	begin, end int64  // nanoseconds of the sender's wall clock
	status     outcome.Status
}

// parse parses a line without its newline:
//
//	n:NAME;b:BEGIN;e:END;s:STATUS
//
// Names are not escaped, so parse reads the line from its end: everything before the last three
// fields is the name. If there is an error, the name is set only if it is certain.
func parse(text []byte) (line, error) {
	text = bytes.TrimSuffix(text, []byte{'\r'})
	if len(text) > maxLine {
		return line{}, errLong
	}
	text, status, ok := cutField(text, 's')
	if !ok {
		return line{}, errNoStatus
	}
	text, end, ok := cutField(text, 'e')
	if !ok {
		return line{}, errNoEnd
	}
	text, begin, ok := cutField(text, 'b')
	if !ok {
		return line{}, errNoBegin
	}
	name, ok := bytes.CutPrefix(text, []byte("n:"))
	if !ok {
		return line{}, errNoName
	}
	if err := checkName(name); err != nil {
		return line{}, err
	}
	l := line{name: name}
	return l, l.setValues(begin, end, status)
}

// setValues sets the fields that follow the name.
func (l *line) setValues(begin, end, status []byte) (err error) {
	if l.status, err = parseStatus(status); err != nil {
		return err
	}
	if l.begin, err = parseTime(begin); err != nil {
		return err
	}
	if l.end, err = parseTime(end); err != nil {
		return err
	}
	if l.end < l.begin {
		return errBackwards
	}
	return nil
}

// cutField cuts the last field, ;KEY:VALUE, from a text.
func cutField(text []byte, key byte) (rest, value []byte, ok bool) {
	i := bytes.LastIndexByte(text, ';')
	if i < 0 || len(text) < i+3 || text[i+1] != key || text[i+2] != ':' {
		return nil, nil, false
	}
	return text[:i], text[i+3:], true
}

func checkName[T []byte | string](name T) error {
	if len(name) == 0 {
		return errEmptyName
	}
	if len(name) > maxName {
		return errLongName
	}
	for i := range len(name) {
		if name[i] < ' ' || name[i] == 0x7f {
			return errControl
		}
	}
	return nil
}

func parseStatus(text []byte) (outcome.Status, error) {
	switch string(text) {
	case "ok":
		return outcome.Success, nil
	case "fa":
		return outcome.Failure, nil
	case "to":
		return outcome.Timeout, nil
	}
	return 0, errStatus
}

// parseTime parses a non-negative whole number of decimal digits.
func parseTime(text []byte) (int64, error) {
	if len(text) == 0 {
		return 0, errNumber
	}
	var n int64
	for i, c := range text {
		digit := int64(c - '0')
		if digit > 9 {
			return 0, errNumber
		}
		if n > (math.MaxInt64-digit)/10 {
			return 0, overflow(text[i:])
		}
		n = n*10 + digit
	}
	return n, nil
}

// overflow returns the error for a number that has become too large, given the rest of its text.
func overflow(rest []byte) error {
	for _, c := range rest {
		if c < '0' || c > '9' {
			return errNumber
		}
	}
	return errOverflow
}
