package script

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/beamscope/beamscope/internal/pairing"
)

// header is the line with which the text begins that is meant for us.
const header = "beamscope events 1"

const (
	maxLine = 2047    // bytes of a line, without its newline
	maxKey  = 512     // bytes of a key, and of what it is armed by
	maxTime = 1 << 62 // nanoseconds
)

// Why a line is rejected.
var (
	errLong    = fmt.Errorf("longer than %d bytes", maxLine)
	errHalf    = errors.New("the text ended within it")
	errKind    = errors.New("it begins with none of t, s, v, e, y and a and a space")
	errOutcome = errors.New("no outcome")
	errPID     = errors.New("no process id behind the outcome")
	errKey     = fmt.Errorf("no key behind the process id, or one of more than %d bytes", maxKey)
	errTime    = errors.New("no time behind the key: whole nanoseconds below 2^62")
	errTail    = errors.New("something behind its end that is neither an =AMOUNT nor a #LABEL.CUR")
	errAhead   = fmt.Errorf("it is more than %v ahead of the last t", maxAhead)
	errLeap    = fmt.Errorf("it is more than %v ahead of the last t: only the next t behind it is believed", maxAhead)
)

// A recordKind says what a line tells.
type recordKind uint8

const (
	beat     recordKind = iota // the time
	event                      // an event
	lost                       // that lines are missing
	rejected                   // nothing that could be understood
)

// A record is what a line tells. Its texts are its own, for those that are kept should not
// keep all of the line.
type record struct {
	kind    recordKind
	outcome string // also of one rejected, where it is certain
	pid     int    // likewise
	event   pairing.Event
	count   uint64 // of what is missing
	text    string // of one rejected
	err     error  // why it was
}

// parse parses a line without its newline that is not empty.
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

// bytes returns how long the texts of a record are.
func (r *record) bytes() int {
	return len(r.outcome) + len(r.event.Key) + len(r.event.Text) + len(r.text)
}

// reject makes a record of a line that means nothing, but perhaps whose it is.
func reject(r record, text string, err error) record {
	const most = 80 // bytes of the text: all that is ever shown
	return record{kind: rejected, outcome: strings.Clone(r.outcome), pid: r.pid, text: strings.Clone(text[:min(len(text), most)]), err: err}
}

// parseLost parses what tracers say of lines for which they had no room.
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

// parseEvent parses what follows the kind of an event. On an error the record says as
// much as is certain.
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

// parseRest parses KEY NS and what may follow: the key is all up to the first number
// behind its first word.
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

// cutToken cuts a #LABEL.CUR off the end of a text, if it has one.
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

// parseAmount parses a number of 64 bits: scripts print some without and some with a
// sign.
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

// parseTime parses a time in decimal digits alone.
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
