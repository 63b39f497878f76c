package script

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/beamscope/beamscope/internal/sources/pairing"
)

// header is the line with which the relevant text begins.
const header = "beamscope events 1"

const (
	maxLine = 2047    // bytes of a line, without its newline
	maxKey  = 512     // bytes of a key, and of the text that arms it
	maxTime = 1 << 62 // nanoseconds
)

// Reasons why a line is rejected.
var (
	errLong    = fmt.Errorf("longer than %d bytes", maxLine)
	errHalf    = errors.New("the text ended in the middle of it")
	errKind    = errors.New("it does not begin with t, s, v, e, y or a, and a space")
	errOutcome = errors.New("no outcome")
	errPID     = errors.New("no process id after the outcome")
	errKey     = fmt.Errorf("no key after the process id, or one of more than %d bytes", maxKey)
	errTime    = errors.New("no time after the key: whole nanoseconds below 2^62")
	errTail    = errors.New("text after its end that is neither an =AMOUNT nor a #LABEL.CUR")
	errAhead   = fmt.Errorf("it is more than %v ahead of the last t", maxAhead)
	errLeap    = fmt.Errorf("it is more than %v ahead of the last t: it counts only if the next t confirms it", maxAhead)
)

// A recordKind is the kind of a line.
type recordKind uint8

const (
	beat     recordKind = iota // the time
	event                      // an event
	lost                       // lines are missing
	rejected                   // could not be understood
)

// A record is the content of a line. Its texts are copies, so that a kept record does not keep
// the whole line in memory.
type record struct {
	kind    recordKind
	outcome string // also set for a rejected line if it is certain
	pid     int    // likewise
	event   pairing.Event
	count   uint64 // number of missing lines
	text    string // text of a rejected line
	err     error  // reason for the rejection
}

// parse parses a line without its newline. The line must not be empty.
func parse(text string) record {
	text = strings.TrimSuffix(text, "\r")
	if len(text) > maxLine {
		return reject(record{}, text, errLong)
	}
	if n, ok := parseLost(text); ok {
		return record{kind: lost, count: n}
	}
	if len(text) < 2 || text[1] != ' ' {
		return reject(record{}, text, errKind)
	}
	var r record
	var err error
	switch text[0] {
	case 't':
		r.event.Time, err = parseTime(text[2:])
		r.kind = beat
	case 's':
		r, err = parseEvent(text[2:], pairing.Start)
	case 'v':
		r, err = parseEvent(text[2:], pairing.Via)
	case 'e':
		r, err = parseEvent(text[2:], pairing.End)
	case 'y':
		r, err = parseEvent(text[2:], pairing.Sync)
	case 'a':
		r, err = parseEvent(text[2:], pairing.Arm)
	default:
		err = errKind
	}
	if err != nil {
		return reject(r, text, err)
	}
	r.event.Key, r.event.Text = strings.Clone(r.event.Key), strings.Clone(r.event.Text)
	r.outcome = strings.Clone(r.outcome)
	return r
}

// bytes returns the total length of the texts of a record.
func (r *record) bytes() int {
	return len(r.outcome) + len(r.event.Key) + len(r.event.Text) + len(r.text)
}

// reject makes a record of a rejected line, with its outcome and VM as far as known.
func reject(r record, text string, err error) record {
	const most = 80 // bytes of the text that can be shown
	return record{kind: rejected, outcome: strings.Clone(r.outcome), pid: r.pid, text: strings.Clone(text[:min(len(text), most)]), err: err}
}

// parseLost parses what tracers print about lines for which they had no room.
func parseLost(text string) (n uint64, ok bool) {
	digits, ok := strings.CutPrefix(text, "Lost ")
	if ok {
		digits, ok = strings.CutSuffix(digits, " events")
	} else if digits, ok = strings.CutPrefix(text, "dtrace: "); ok {
		var what string
		digits, what, _ = strings.Cut(digits, " ")
		ok = strings.Contains(what, "drop")
	}
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n > 0
}

// parseEvent parses what follows the kind of an event. After an error the record contains what is
// certain.
func parseEvent(text string, kind pairing.Kind) (record, error) {
	r := record{kind: event, event: pairing.Event{Kind: kind}}
	name, text, ok := strings.Cut(text, " ")
	if !ok || name == "" {
		return r, errOutcome
	}
	digits, text, ok := strings.Cut(text, " ")
	pid, err := strconv.ParseUint(digits, 10, 31)
	if !ok || err != nil || pid == 0 || !isDigits(digits) {
		return r, errPID
	}
	r.outcome, r.pid = name, int(pid)
	if kind == pairing.Arm {
		return r, r.parseArm(text)
	}
	return r, r.parseRest(text)
}

// parseArm parses KEY ARMED NS.
func (r *record) parseArm(text string) (err error) {
	ev := &r.event
	last := strings.LastIndexByte(text, ' ')
	if last < 0 {
		return errTime
	}
	var ok bool
	if ev.Key, ev.Text, ok = strings.Cut(text[:last], " "); !ok || !isKey(ev.Key) || len(ev.Text) > maxKey {
		return errKey
	}
	ev.Time, err = parseTime(text[last+1:])
	return err
}

// parseRest parses KEY NS and what may follow. The key extends to the first number after its
// first word.
func (r *record) parseRest(text string) (err error) {
	ev := &r.event
	digits, rest := "", ""
	for at := strings.IndexByte(text, ' '); at >= 0; {
		digits, rest, _ = strings.Cut(text[at+1:], " ")
		if isDigits(digits) {
			ev.Key = text[:at]
			break
		}
		next := strings.IndexByte(text[at+1:], ' ')
		if next < 0 {
			return errTime
		}
		at += 1 + next
	}
	if !isKey(ev.Key) {
		return errKey
	}
	if ev.Time, err = parseTime(digits); err != nil {
		return err
	}
	if ev.Kind != pairing.Sync {
		rest, ev.Token = cutToken(rest)
	}
	switch {
	case rest == "":
		return nil
	case ev.Kind == pairing.Start && len(rest) <= maxKey:
		ev.Text = rest
		return nil
	case ev.Kind == pairing.End && rest[0] == '=':
		ev.Amount, err = parseAmount(rest[1:])
		return err
	}
	return errTail
}

// cutToken cuts a #LABEL.CUR from the end of a text, if there is one.
func cutToken(text string) (rest string, t pairing.Token) {
	at := strings.LastIndexByte(text, '#')
	if at < 0 || at > 0 && text[at-1] != ' ' {
		return text, t
	}
	label, cur, ok := strings.Cut(text[at+1:], ".")
	l, errLabel := strconv.ParseInt(label, 10, 64)
	c, errCur := strconv.ParseInt(cur, 10, 64)
	if !ok || errLabel != nil || errCur != nil {
		return text, t
	}
	return strings.TrimSuffix(text[:at], " "), pairing.Token{Label: l, Cur: c}
}

// parseAmount parses a number of 64 bits. Scripts print some of them unsigned and some signed.
func parseAmount(text string) (uint64, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return uint64(n), nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, errTail
	}
	return n, nil
}

// parseTime parses a time of decimal digits only.
func parseTime(text string) (int64, error) {
	if !isDigits(text) {
		return 0, errTime
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n >= maxTime {
		return 0, errTime
	}
	return n, nil
}

func isKey(text string) bool { return text != "" && len(text) <= maxKey }

func isDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}
