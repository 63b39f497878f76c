package pairing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/sources/pairing"
)

// dMax is the dMax of the examples.
const dMax = time.Millisecond

const us = int64(time.Microsecond)

// at makes an event of key k, at a time in microseconds.
func at(kind pairing.Kind, t int64, change ...func(*pairing.Event)) pairing.Event {
	ev := pairing.Event{Kind: kind, Key: "k", Time: t * us}
	for _, c := range change {
		c(&ev)
	}
	return ev
}

func key(k string) func(*pairing.Event)  { return func(ev *pairing.Event) { ev.Key = k } }
func text(s string) func(*pairing.Event) { return func(ev *pairing.Event) { ev.Text = s } }
func amount(n uint64) func(*pairing.Event) {
	return func(ev *pairing.Event) { ev.Amount = n }
}
func message(address uint64) func(*pairing.Event) {
	return func(ev *pairing.Event) { ev.Message = address }
}
func token(label, cur int64) func(*pairing.Event) {
	return func(ev *pairing.Event) { ev.Token = pairing.Token{Label: label, Cur: cur} }
}

const (
	start = pairing.Start
	via   = pairing.Via
	arm   = pairing.Arm
	end   = pairing.End
	sync  = pairing.Sync
)

// formatFacts formats facts readably, with times in microseconds.
func formatFacts(facts []pairing.Fact) []string {
	words := []string{"start", "end", "success", "timeout", "orphan", "late", "dropped", "unpaired", "noroom", "cut"}
	var all []string
	for _, f := range facts {
		s := fmt.Sprintf("%s@%d", words[f.What], f.Time/us)
		if f.Key != "k" {
			s += "/" + f.Key
		}
		switch f.What {
		case pairing.Succeeded, pairing.TimedOut, pairing.Unpaired, pairing.Cut:
			s += fmt.Sprintf("<%d", f.Start/us)
		}
		if f.Amount != 0 {
			s += fmt.Sprintf("=%d", f.Amount)
		}
		if f.Inferred {
			s += "~"
		}
		all = append(all, s)
	}
	return all
}

// The engine gives the results that were worked out by hand for short sequences of events.
func TestExamples(t *testing.T) {
	first := pairing.Config{DMax: dMax}
	last := pairing.Config{Pairing: dtrace.Last, DMax: dMax}
	fifo := pairing.Config{Pairing: dtrace.FIFO, DMax: dMax}
	through := pairing.Config{Pairing: dtrace.FIFO, DMax: dMax, Via: true}
	synced := pairing.Config{Pairing: dtrace.FIFO, DMax: dMax, Synced: true}
	staged := pairing.Config{Pairing: dtrace.FIFO, DMax: dMax, Via: true, Synced: true}
	selective := pairing.Config{Pairing: dtrace.FIFO, DMax: dMax, Selective: true}
	armed := pairing.Config{DMax: dMax, Arm: true}
	for _, test := range []struct {
		name   string
		cfg    pairing.Config
		events []pairing.Event
		want   []string
	}{
		{"one instance", first,
			[]pairing.Event{at(start, 10), at(end, 15, amount(7))},
			[]string{"start@10", "end@15", "success@15<10=7"}},
		{"each key is paired separately", first,
			[]pairing.Event{at(start, 10), at(end, 12, key("l")), at(start, 13, key("l")), at(end, 14), at(end, 15, key("l"))},
			[]string{"start@10", "end@12/l", "orphan@12/l", "start@13/l", "end@14", "success@14<10", "end@15/l", "success@15/l<13"}},
		{"first: a start joins the open instance", first,
			[]pairing.Event{at(start, 10), at(start, 11), at(end, 15), at(end, 16)},
			[]string{"start@10", "start@11", "end@15", "success@15<10", "end@16", "orphan@16"}},
		{"last: a start replaces the open instance", last,
			[]pairing.Event{at(start, 10), at(start, 11), at(end, 15), at(end, 16)},
			[]string{"start@10", "start@11", "unpaired@11<10", "end@15", "success@15<11", "end@16", "orphan@16"}},
		{"an end at exactly dMax is in time", first,
			[]pairing.Event{at(start, 10), at(end, 1010)},
			[]string{"start@10", "end@1010", "success@1010<10"}},
		{"a later end is late, and the next one is an orphan", first,
			[]pairing.Event{at(start, 10), at(end, 1011), at(end, 1012)},
			[]string{"start@10", "timeout@1010<10", "end@1011", "late@1011", "end@1012", "orphan@1012"}},
		{"an end belongs to the open instance rather than to one that timed out", first,
			[]pairing.Event{at(start, 10), at(start, 1500), at(end, 1600), at(end, 1601), at(end, 1602)},
			[]string{"start@10", "timeout@1010<10", "start@1500", "end@1600", "success@1600<1500", "end@1601", "late@1601", "end@1602", "orphan@1602"}},
		{"only the last instance that timed out is remembered", first,
			[]pairing.Event{at(start, 10), at(start, 1500), at(start, 3000), at(end, 3001), at(end, 3002), at(end, 3003)},
			[]string{"start@10", "timeout@1010<10", "start@1500", "timeout@2500<1500", "start@3000", "end@3001", "success@3001<3000", "end@3002", "late@3002", "end@3003", "orphan@3003"}},
		{"last: an instance that timed out is not replaced", last,
			[]pairing.Event{at(start, 10), at(start, 1500), at(end, 1600)},
			[]string{"start@10", "timeout@1010<10", "start@1500", "end@1600", "success@1600<1500"}},
		{"only fifo uses tokens", last,
			[]pairing.Event{at(start, 10, token(1, 2)), at(end, 15)},
			[]string{"start@10", "end@15", "success@15<10"}},
		{"loose", pairing.Config{DMax: dMax, Loose: true},
			[]pairing.Event{at(end, 9), at(start, 10), at(end, 15), at(start, 20), at(end, 1500)},
			[]string{"dropped@9", "start@10", "end@15", "success@15<10", "start@20", "timeout@1020<20", "end@1500", "late@1500"}},

		{"an end overtakes its start", pairing.Config{DMax: dMax, Pairing: dtrace.Last, Overtaken: true},
			[]pairing.Event{at(end, 9), at(start, 10), at(end, 15), at(start, 20), at(start, 30), at(end, 31)},
			[]string{"end@9", "orphan@9", "start@10", "success@10<10", "end@15", "orphan@15", "start@20", "success@20<20", "start@30", "end@31", "success@31<30"}},
		{"an end overtakes its start by at most a second",
			pairing.Config{DMax: dMax, Pairing: dtrace.Last, Overtaken: true},
			[]pairing.Event{at(end, 10), at(start, 1_000_010), at(end, 1_000_020), at(start, 2_000_021), at(end, 2_000_022)},
			[]string{
				"end@10", "orphan@10", "start@1000010", "success@1000010<1000010",
				"end@1000020", "orphan@1000020", "start@2000021", "end@2000022", "success@2000022<2000021",
			}},
		{"an end overtakes only a start of its own key", pairing.Config{DMax: dMax, Overtaken: true},
			[]pairing.Event{at(end, 9, key("l")), at(start, 10), at(end, 15)},
			[]string{"end@9/l", "orphan@9/l", "start@10", "end@15", "success@15<10"}},
		{"an end that may overtake its start needs room", pairing.Config{DMax: dMax, Overtaken: true, Room: pairing.NewRoom(1)},
			[]pairing.Event{at(start, 5), at(end, 9, key("l")), at(end, 10), at(start, 11, key("l")), at(end, 12, key("l"))},
			[]string{"start@5", "end@9/l", "orphan@9/l", "end@10", "success@10<5", "start@11/l", "end@12/l", "success@12/l<11"}},

		{"messages: the address identifies a message", fifo,
			[]pairing.Event{at(start, 10, message(1)), at(start, 11, message(2)), at(end, 12, message(2)), at(end, 13, message(1)), at(end, 14, message(1))},
			[]string{"start@10", "start@11", "end@12", "success@12<11", "end@13", "success@13<10", "end@14", "orphan@14"}},
		{"messages: the same address at another receiver is another message", fifo,
			[]pairing.Event{at(start, 10, message(1)), at(end, 11, message(1), key("l")), at(end, 12, message(1))},
			[]string{"start@10", "end@11/l", "orphan@11/l", "end@12", "success@12<10"}},
		{"messages: an address that is used again gives up its old instance", fifo,
			[]pairing.Event{at(start, 10, message(1)), at(start, 11, message(1)), at(end, 12, message(1)), at(end, 13, message(1))},
			[]string{"start@10", "start@11", "unpaired@11<10", "end@12", "success@12<11", "end@13", "orphan@13"}},
		{"messages: the address of an instance that timed out is used again", fifo,
			[]pairing.Event{at(start, 10, message(1)), at(start, 1500, message(1)), at(end, 1501, message(1))},
			[]string{"start@10", "timeout@1010<10", "start@1500", "end@1501", "success@1501<1500"}},
		{"messages: the address takes precedence over the token", fifo,
			[]pairing.Event{at(start, 10, message(1), token(1, 1)), at(end, 11, message(1), token(2, 2)), at(end, 12, token(1, 1))},
			[]string{"start@10", "end@11", "success@11<10", "end@12", "orphan@12"}},
		{"messages: vias are paired with starts by order and with ends by address", through,
			[]pairing.Event{
				at(start, 10), at(start, 11), at(via, 12, message(1)), at(via, 13, message(2)), at(end, 14, message(2)), at(end, 15, message(1)), at(end, 16, message(1)),
			},
			[]string{"start@10", "start@11", "end@14", "success@14<11~", "end@15", "success@15<10~", "end@16", "orphan@16"}},
		{"messages: a via without a start", through,
			[]pairing.Event{at(via, 10, message(1)), at(end, 11, message(1))},
			[]string{"end@11", "orphan@11"}},
		{"messages: an address that is used again behind a via", through,
			[]pairing.Event{at(start, 10), at(start, 11), at(via, 12, message(1)), at(via, 13, message(1)), at(end, 14, message(1)), at(end, 15, message(1))},
			[]string{"start@10", "start@11", "unpaired@13<10", "end@14", "success@14<11~", "end@15", "orphan@15"}},
		{"messages: a token takes precedence over an address behind a via", through,
			[]pairing.Event{at(start, 10, token(1, 1)), at(via, 11, token(1, 1), message(1)), at(end, 12, token(1, 1), message(1))},
			[]string{"start@10", "end@12", "success@12<10"}},
		{"messages: the end of an instance that timed out behind a via is late", through,
			[]pairing.Event{at(start, 10), at(via, 11, message(1)), at(end, 1500, message(1))},
			[]string{"start@10", "timeout@1010<10", "end@1500", "late@1500"}},

		{"fifo: paired by order", fifo,
			[]pairing.Event{at(start, 10), at(start, 11), at(end, 15, amount(3)), at(end, 16), at(end, 17)},
			[]string{"start@10", "start@11", "end@15", "success@15<10=3~", "end@16", "success@16<11~", "end@17", "orphan@17"}},
		{"fifo: an instance that timed out keeps its place in the queue", fifo,
			[]pairing.Event{at(start, 10), at(start, 1000), at(end, 1500), at(end, 1501)},
			[]string{"start@10", "start@1000", "timeout@1010<10", "end@1500", "late@1500", "end@1501", "success@1501<1000~"}},
		{"selective: paired by order until the queue has not been empty for longer than dMax", selective,
			[]pairing.Event{at(start, 10), at(start, 1000), at(end, 1010), at(start, 1011), at(end, 1500)},
			[]string{"start@10", "start@1000", "end@1010", "success@1010<10~", "start@1011", "end@1500", "unpaired@1500<1000"}},
		{"selective: ends do not extend the time of a queue that is never empty", selective,
			[]pairing.Event{at(start, 0), at(start, 10), at(end, 11), at(start, 900), at(end, 901), at(start, 1100), at(end, 1101)},
			[]string{"start@0", "start@10", "end@11", "success@11<0~", "start@900", "end@901", "success@901<10~", "start@1100", "end@1101", "unpaired@1101<900"}},
		{"selective: after the queue was empty, instances are paired by order again", selective,
			[]pairing.Event{at(start, 0), at(start, 900), at(end, 1000), at(end, 1001), at(start, 2000), at(end, 2001)},
			[]string{"start@0", "start@900", "end@1000", "success@1000<0~", "end@1001", "unpaired@1001<900", "start@2000", "end@2001", "success@2001<2000~"}},
		{"selective: instances time out if no end has taken one from the queue", selective,
			[]pairing.Event{at(start, 0), at(start, 1), at(end, 2000), at(end, 2001)},
			[]string{"start@0", "start@1", "timeout@1000<0", "timeout@1001<1", "end@2000", "late@2000", "end@2001", "late@2001"}},
		{"selective: an instance that an end may have taken is unpaired instead of timed out", selective,
			[]pairing.Event{at(start, 0), at(start, 1), at(end, 2), at(end, 2001)},
			[]string{"start@0", "start@1", "end@2", "success@2<0~", "unpaired@1001<1", "end@2001", "late@2001"}},
		{"selective: a token identifies its instance", selective,
			[]pairing.Event{at(start, 0), at(start, 1, token(1, 2)), at(end, 500), at(start, 600), at(end, 1001, token(1, 2)), at(start, 1002, token(1, 3))},
			[]string{"start@0", "start@1", "end@500", "success@500<0~", "start@600", "end@1001", "success@1001<1", "start@1002"}},
		{"selective: a token identifies its instance, however long the queue was empty", selective,
			[]pairing.Event{at(start, 2000, token(1, 2)), at(end, 2010, token(1, 2))},
			[]string{"start@2000", "end@2010", "success@2010<2000"}},
		{"selective: an end with a token does not make other instances certain", selective,
			[]pairing.Event{at(start, 10), at(start, 11), at(end, 20), at(start, 21, token(1, 1)), at(end, 22, token(1, 1)), at(end, 1500)},
			[]string{"start@10", "start@11", "end@20", "success@20<10~", "start@21", "end@22", "success@22<21", "unpaired@1011<11", "end@1500", "late@1500"}},
		{"selective: with a second stage", pairing.Config{Pairing: dtrace.FIFO, DMax: dMax, Via: true, Selective: true},
			[]pairing.Event{at(start, 0), at(start, 1), at(via, 900), at(via, 901), at(end, 950), at(start, 960), at(end, 999), at(via, 1100), at(via, 1101), at(end, 1102)},
			[]string{"start@0", "start@1", "end@950", "success@950<0~", "start@960", "end@999", "success@999<1~", "end@1102", "success@1102<960~"}},
		{"selective: instances that time out in the first and in the second stage", pairing.Config{Pairing: dtrace.FIFO, DMax: dMax, Via: true, Selective: true},
			[]pairing.Event{at(start, 0), at(start, 1), at(via, 10), at(via, 11), at(start, 12), at(end, 20), at(end, 2000)},
			[]string{"start@0", "start@1", "start@12", "end@20", "success@20<0~", "unpaired@1001<1", "timeout@1012<12", "end@2000", "late@2000"}},
		{"fifo: an instance with a token does not affect the queue", fifo,
			[]pairing.Event{at(start, 10), at(start, 11, token(0, 5)), at(end, 12, token(0, 5)), at(end, 13), at(end, 14, token(0, 5))},
			[]string{"start@10", "start@11", "end@12", "success@12<11", "end@13", "success@13<10~", "end@14", "orphan@14"}},
		{"fifo: label, number and key must all match", fifo,
			[]pairing.Event{at(start, 10, token(1, 5)), at(end, 11, token(2, 5)), at(end, 12, token(1, 6)), at(end, 13, token(1, 5), key("l")), at(end, 14, token(1, 5))},
			[]string{"start@10", "end@11", "orphan@11", "end@12", "orphan@12", "end@13/l", "orphan@13/l", "end@14", "success@14<10"}},
		{"fifo: an instance with a token may time out", fifo,
			[]pairing.Event{at(start, 10, token(1, 5)), at(end, 1011, token(1, 5)), at(end, 1012, token(1, 5))},
			[]string{"start@10", "timeout@1010<10", "end@1011", "late@1011", "end@1012", "orphan@1012"}},
		{"fifo: two open instances with the same token", fifo,
			[]pairing.Event{at(start, 10, token(1, 5)), at(start, 11, token(1, 5)), at(end, 12, token(1, 5))},
			[]string{"start@10", "start@11", "unpaired@11<10", "unpaired@11<11", "end@12", "orphan@12"}},

		{"fifo: the token of an instance that timed out is used again", fifo,
			[]pairing.Event{at(start, 10, token(1, 5)), at(start, 1500, token(1, 5)), at(end, 1501, token(1, 5)), at(end, 1502, token(1, 5))},
			[]string{"start@10", "timeout@1010<10", "start@1500", "end@1501", "success@1501<1500", "end@1502", "orphan@1502"}},

		{"via: each end is paired with the start of its via, by order", through,
			[]pairing.Event{at(start, 10), at(start, 11), at(via, 12), at(via, 13), at(end, 15), at(end, 16), at(end, 17)},
			[]string{"start@10", "start@11", "end@15", "success@15<10~", "end@16", "success@16<11~", "end@17", "orphan@17"}},
		{"via: the end of a via without a start is an orphan", through,
			[]pairing.Event{at(start, 10), at(via, 12), at(via, 13), at(start, 14), at(via, 15), at(end, 16), at(end, 17), at(end, 18)},
			[]string{"start@10", "start@14", "end@16", "success@16<10~", "end@17", "orphan@17", "end@18", "success@18<14~"}},
		{"via: an instance cannot end before its via", through,
			[]pairing.Event{at(start, 10), at(end, 11), at(via, 12), at(end, 13)},
			[]string{"start@10", "end@11", "orphan@11", "end@13", "success@13<10~"}},
		{"via: an instance that timed out still passes the via", through,
			[]pairing.Event{at(start, 10), at(start, 1000), at(via, 1020), at(via, 1021), at(end, 1022), at(end, 1023)},
			[]string{"start@10", "start@1000", "timeout@1010<10", "end@1022", "late@1022", "end@1023", "success@1023<1000~"}},
		{"via: instances with tokens do not enter the queue", through,
			[]pairing.Event{at(start, 10, token(1, 5)), at(via, 11, token(1, 5)), at(end, 12), at(end, 13, token(1, 5))},
			[]string{"start@10", "end@12", "orphan@12", "end@13", "success@13<10"}},
		{"via: if loose, the end of a via without a start is dropped", pairing.Config{Pairing: dtrace.FIFO, DMax: dMax, Via: true, Loose: true},
			[]pairing.Event{at(via, 10), at(end, 11)},
			[]string{"dropped@11"}},

		{"synced: an instance that a fetch left behind cannot end later", synced,
			[]pairing.Event{at(start, 10), at(start, 11), at(end, 120), at(sync, 121), at(start, 130), at(end, 140), at(sync, 141), at(end, 142)},
			[]string{"start@10", "start@11", "end@120", "success@120<10~", "start@130", "unpaired@140<11", "end@140", "success@140<130~", "end@142", "orphan@142"}},
		{"synced: a fetch may take any time", synced,
			[]pairing.Event{at(start, 10), at(start, 11), at(end, 120), at(start, 130), at(end, 400), at(end, 900)},
			[]string{"start@10", "start@11", "end@120", "success@120<10~", "start@130", "end@400", "success@400<11~", "end@900", "success@900<130~"}},
		{"synced: an instance that started at most 100 us before a fetch may still end", synced,
			[]pairing.Event{at(start, 10), at(start, 19), at(start, 20), at(end, 120), at(sync, 121), at(end, 140), at(end, 141), at(end, 142)},
			[]string{"start@10", "start@19", "start@20", "end@120", "success@120<10~", "unpaired@140<19", "end@140", "success@140<20~", "end@141", "orphan@141", "end@142", "orphan@142"}},
		{"synced: a fetch begins with its first end, even if that is an orphan", synced,
			[]pairing.Event{
				at(start, 10), at(end, 20), at(sync, 21), at(end, 200), at(start, 210), at(start, 290), at(end, 400),
				at(sync, 401), at(end, 402), at(sync, 403), at(end, 404),
			},
			[]string{
				"start@10", "end@20", "success@20<10~", "end@200", "orphan@200", "start@210", "start@290", "end@400", "success@400<210~",
				"end@402", "success@402<290~", "end@404", "orphan@404",
			}},
		{"synced: fetches before the first start are ignored", synced,
			[]pairing.Event{at(end, 10), at(sync, 11), at(start, 500), at(start, 501), at(end, 700), at(end, 701)},
			[]string{"end@10", "orphan@10", "start@500", "start@501", "end@700", "success@700<500~", "end@701", "success@701<501~"}},
		{"synced: a sync of another receiver has no effect", synced,
			[]pairing.Event{at(start, 10), at(start, 11), at(end, 120), at(sync, 121, key("l")), at(end, 140)},
			[]string{"start@10", "start@11", "end@120", "success@120<10~", "end@140", "success@140<11~"}},
		{"synced: an instance that timed out and was left behind is dropped silently", synced,
			[]pairing.Event{at(start, 10), at(start, 11), at(end, 900), at(sync, 901), at(start, 1030), at(end, 1120), at(end, 1121)},
			[]string{"start@10", "start@11", "end@900", "success@900<10~", "timeout@1011<11", "start@1030", "end@1120", "success@1120<1030~", "end@1121", "orphan@1121"}},
		{"synced: an instance that timed out and may still be fetched ends late", synced,
			[]pairing.Event{at(start, 10), at(start, 850), at(end, 900), at(sync, 901), at(end, 1860)},
			[]string{"start@10", "start@850", "end@900", "success@900<10~", "timeout@1850<850", "end@1860", "late@1860"}},
		{"synced: at most eight instances are examined for one end", synced,
			[]pairing.Event{
				at(start, 1), at(start, 2), at(start, 3), at(start, 4), at(start, 5), at(start, 6), at(start, 7), at(start, 8), at(start, 9),
				at(end, 120), at(sync, 121), at(start, 130), at(end, 140), at(end, 141),
			},
			[]string{
				"start@1", "start@2", "start@3", "start@4", "start@5", "start@6", "start@7", "start@8", "start@9", "end@120", "success@120<1~",
				"start@130", "unpaired@140<2", "unpaired@140<3", "unpaired@140<4", "unpaired@140<5", "unpaired@140<6", "unpaired@140<7",
				"unpaired@140<8", "unpaired@140<9", "end@140", "orphan@140", "end@141", "success@141<130~",
			}},
		{"synced: ends with tokens do not count as fetches", synced,
			[]pairing.Event{at(start, 10), at(start, 15, token(1, 1)), at(end, 120, token(1, 1)), at(sync, 121), at(end, 320), at(sync, 321), at(start, 322), at(end, 500)},
			[]string{"start@10", "start@15", "end@120", "success@120<15", "end@320", "success@320<10~", "start@322", "end@500", "success@500<322~"}},
		{"synced: with vias, an end shows that the fetch is over", staged,
			[]pairing.Event{at(start, 10), at(start, 11), at(via, 120), at(start, 130), at(end, 135), at(via, 220), at(end, 221)},
			[]string{"start@10", "start@11", "start@130", "end@135", "success@135<10~", "unpaired@220<11", "end@221", "success@221<130~"}},
		{"synced: with vias, an end with a token shows that too", staged,
			[]pairing.Event{at(start, 10), at(start, 11), at(via, 120), at(start, 130), at(end, 135, token(1, 1)), at(via, 220), at(end, 221), at(end, 222)},
			[]string{"start@10", "start@11", "start@130", "end@135", "orphan@135", "unpaired@220<11", "end@221", "success@221<10~", "end@222", "success@222<130~"}},
		{"synced: an instance that timed out before its via ends late", staged,
			[]pairing.Event{at(start, 10), at(via, 1020), at(end, 1030), at(start, 1031), at(via, 1040), at(end, 1041)},
			[]string{"start@10", "timeout@1010<10", "end@1030", "late@1030", "start@1031", "end@1041", "success@1041<1031~"}},
		{"synced: at time 0", synced,
			[]pairing.Event{at(start, 0), at(start, 0), at(end, 5), at(sync, 6), at(end, 7)},
			[]string{"start@0", "start@0", "end@5", "success@5<0~", "end@7", "success@7<0~"}},
		{"not synced: paired by order only", fifo,
			[]pairing.Event{at(start, 10), at(start, 11), at(end, 120), at(sync, 121), at(start, 130), at(end, 140)},
			[]string{"start@10", "start@11", "end@120", "success@120<10~", "start@130", "end@140", "success@140<11~"}},

		{"arm: a start with the text of the note, with another text, and without a note", armed,
			[]pairing.Event{
				at(arm, 9, text("a")), at(start, 10, text("a")), at(end, 11),
				at(arm, 12, text("a")), at(start, 13, text("b")), at(start, 14, text("a")), at(end, 15),
			},
			[]string{"start@10", "end@11", "success@11<10", "dropped@13", "dropped@14", "end@15", "orphan@15"}},
		{"arm: the last note of the same key counts", armed,
			[]pairing.Event{at(arm, 8, text("a")), at(arm, 9, text("b")), at(arm, 9, text("a"), key("l")), at(start, 10, text("b"))},
			[]string{"start@10"}},
		{"arm: a dropped start does not affect the open instance", pairing.Config{Pairing: dtrace.Last, DMax: dMax, Arm: true},
			[]pairing.Event{at(arm, 9), at(start, 10), at(start, 11), at(end, 12)},
			[]string{"start@10", "dropped@11", "end@12", "success@12<10"}},

		{"an event earlier than the previous one counts as simultaneous", first,
			[]pairing.Event{at(start, 10), at(end, 5), at(start, 3), at(end, 12)},
			[]string{"start@10", "end@10", "success@10<10", "start@10", "end@12", "success@12<10"}},
		{"no room", pairing.Config{DMax: dMax, Room: pairing.NewRoom(1)},
			[]pairing.Event{at(start, 10), at(start, 11, key("l")), at(end, 12), at(start, 13, key("l"))},
			[]string{"start@10", "start@11/l", "noroom@11/l", "end@12", "success@12<10", "start@13/l"}},
		{"an instance that timed out takes room until its late end", pairing.Config{DMax: dMax, Room: pairing.NewRoom(1)},
			[]pairing.Event{at(start, 10), at(start, 1100), at(end, 1200), at(start, 1201)},
			[]string{"start@10", "timeout@1010<10", "start@1100", "noroom@1100", "end@1200", "late@1200", "start@1201"}},
		{"an instance that timed out takes room while it is remembered", pairing.Config{DMax: dMax, Room: pairing.NewRoom(1), Remember: dMax},
			[]pairing.Event{at(start, 10), at(start, 2010), at(start, 2011), at(end, 2012), at(end, 2013)},
			[]string{"start@10", "timeout@1010<10", "start@2010", "noroom@2010", "start@2011", "end@2012", "success@2012<2011", "end@2013", "orphan@2013"}},
		{"fifo: an instance that timed out is remembered for a while", pairing.Config{Pairing: dtrace.FIFO, DMax: dMax, Remember: dMax},
			[]pairing.Event{at(start, 10), at(start, 12, token(1, 1)), at(start, 2005), at(end, 2011), at(end, 2013, token(1, 1))},
			[]string{"start@10", "start@12", "timeout@1010<10", "timeout@1012<12", "start@2005", "end@2011", "success@2011<2005~", "end@2013", "orphan@2013"}},
		{"fifo: dropping an old instance does not affect a newer one with its token", pairing.Config{Pairing: dtrace.FIFO, DMax: dMax, Remember: dMax},
			[]pairing.Event{at(start, 10, token(1, 1)), at(start, 1500, token(1, 1)), at(start, 2011, key("l")), at(end, 2100, token(1, 1))},
			[]string{"start@10", "timeout@1010<10", "start@1500", "start@2011/l", "end@2100", "success@2100<1500"}},
		{"only the last instance that timed out takes room", pairing.Config{DMax: dMax, Room: pairing.NewRoom(2)},
			[]pairing.Event{at(start, 10), at(start, 1500), at(start, 3000), at(start, 3001, key("l"))},
			[]string{"start@10", "timeout@1010<10", "start@1500", "timeout@2500<1500", "start@3000", "start@3001/l", "noroom@3001/l"}},
		{"the time of a key's last fetch takes room", pairing.Config{Pairing: dtrace.FIFO, DMax: dMax, Synced: true, Room: pairing.NewRoom(2)},
			[]pairing.Event{at(start, 10), at(start, 11), at(start, 12, key("l")), at(end, 13), at(start, 14, key("l"))},
			[]string{"start@10", "start@11", "noroom@11", "start@12/l", "noroom@12/l", "end@13", "success@13<10~", "start@14/l", "noroom@14/l"}},
		{"instances with tokens need no room for fetches", pairing.Config{Pairing: dtrace.FIFO, DMax: dMax, Synced: true, Room: pairing.NewRoom(1)},
			[]pairing.Event{at(start, 10, token(1, 1)), at(end, 13, token(1, 1)), at(start, 14)},
			[]string{"start@10", "end@13", "success@13<10", "start@14", "noroom@14"}},
		{"the time of a key's last fetch takes room while it is remembered", pairing.Config{Pairing: dtrace.FIFO, DMax: dMax, Synced: true, Room: pairing.NewRoom(2), Remember: dMax},
			[]pairing.Event{at(start, 10), at(end, 13), at(sync, 14), at(start, 2013, key("l")), at(start, 2014, key("l"))},
			[]string{"start@10", "end@13", "success@13<10~", "start@2013/l", "noroom@2013/l", "start@2014/l"}},
		{"an instance is remembered for one nanosecond", pairing.Config{DMax: dMax, Remember: 1},
			[]pairing.Event{at(start, 10), at(end, 1011)},
			[]string{"start@10", "timeout@1010<10", "end@1011", "orphan@1011"}},
		{"a note is remembered for one nanosecond", pairing.Config{DMax: dMax, Arm: true, Remember: 1},
			[]pairing.Event{at(arm, 10), at(start, 11)},
			[]string{"dropped@11"}},
		{"notes are remembered for a while", pairing.Config{DMax: dMax, Arm: true, Remember: dMax},
			[]pairing.Event{at(arm, 10), at(start, 1010), at(end, 1011), at(arm, 1020), at(start, 2021)},
			[]string{"start@1010", "end@1011", "success@1011<1010", "dropped@2021"}},
		{"a repeated note is remembered from its last time on", pairing.Config{DMax: dMax, Arm: true, Remember: dMax},
			[]pairing.Event{at(arm, 10), at(arm, 500), at(start, 1200), at(end, 1201)},
			[]string{"start@1200", "end@1201", "success@1201<1200"}},
		{"no room for a note", pairing.Config{DMax: dMax, Arm: true, Room: pairing.NewRoom(1)},
			[]pairing.Event{at(arm, 10), at(arm, 11, key("l")), at(arm, 12, text("x")), at(start, 13, text("x"))},
			[]string{"noroom@11/l", "start@13"}},
	} {
		e := pairing.New(test.cfg)
		var facts []pairing.Fact
		for _, ev := range test.events {
			facts = e.Add(facts, ev)
		}
		if diff := cmp.Diff(test.want, formatFacts(facts)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// If events are missing, open instances are given up and never time out.
func TestCut(t *testing.T) {
	e := pairing.New(pairing.Config{Pairing: dtrace.FIFO, DMax: dMax})
	var facts []pairing.Fact
	for _, ev := range []pairing.Event{at(start, 10), at(start, 500), at(start, 501, token(1, 1)), at(start, 502, key("l"))} {
		facts = e.Add(facts, ev)
	}
	if e.Open() != 4 {
		t.Errorf("%d are open", e.Open())
	}
	facts = e.Cut(facts[:0], 1200*us)
	facts = e.Add(facts, at(end, 1201))
	facts = e.Advance(facts, 9000*us)
	want := []string{"timeout@1010<10", "cut@1200<500", "cut@1200<501", "cut@1200/l<502", "end@1201", "orphan@1201"}
	if diff := cmp.Diff(want, formatFacts(facts)); diff != "" || e.Open() != 0 {
		t.Errorf("%d are open (-want +got):\n%s", e.Open(), diff)
	}
}

// If the key or token of a missing event is known, other instances are unaffected.
func TestLose(t *testing.T) {
	begin := []pairing.Event{at(start, 10), at(start, 11, token(1, 1)), at(start, 12, key("l"))}
	for _, test := range []struct {
		token pairing.Token
		want  []string
	}{
		{pairing.Token{}, []string{"cut@12<10", "timeout@1011<11", "timeout@1012/l<12"}},
		{pairing.Token{Label: 1, Cur: 1}, []string{"cut@12<11", "timeout@1010<10", "timeout@1012/l<12"}},
		{pairing.Token{Label: 1, Cur: 2}, []string{"timeout@1010<10", "timeout@1011<11", "timeout@1012/l<12"}},
	} {
		e := pairing.New(pairing.Config{Pairing: dtrace.FIFO, DMax: dMax})
		for _, ev := range begin {
			e.Add(nil, ev)
		}
		facts := e.Advance(e.Lose(nil, "k", test.token), 9000*us)
		if diff := cmp.Diff(test.want, formatFacts(facts)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.token, diff)
		}
	}
}

// ConfigOf derives from a rule whether fetches are known.
func TestConfigOf(t *testing.T) {
	event := func(name string) dtrace.Expr {
		p, ok := dtrace.Lookup(name)
		if !ok {
			t.Fatal(name)
		}
		return dtrace.Expr{{Probe: p}}
	}
	send, queued, receive := event("message-send"), event("message-queued"), event("message-receive")
	for _, test := range []struct {
		rule dtrace.Rule
		want pairing.Config
	}{
		{dtrace.Rule{Start: send, End: queued, Pairing: dtrace.FIFO}, pairing.Config{Pairing: dtrace.FIFO}},
		{dtrace.Rule{Start: send, End: queued, Sync: receive, Pairing: dtrace.FIFO}, pairing.Config{Pairing: dtrace.FIFO, Synced: true}},
		{dtrace.Rule{Start: send, Via: queued, End: receive, Pairing: dtrace.FIFO}, pairing.Config{Pairing: dtrace.FIFO, Via: true, Synced: true, Selective: true}},
		{dtrace.Rule{Start: queued, End: receive, Pairing: dtrace.FIFO}, pairing.Config{Pairing: dtrace.FIFO, Selective: true}},
		{dtrace.Rule{Start: send, End: queued, Sync: receive, Pairing: dtrace.Last}, pairing.Config{Pairing: dtrace.Last}},
		{dtrace.Rule{Start: send, Via: queued, End: receive}, pairing.Config{}},
		{dtrace.Rule{Start: send, End: queued, Overtaken: true}, pairing.Config{Overtaken: true}},
		{dtrace.Rule{Start: send, End: queued, Arm: send, Loose: true}, pairing.Config{Arm: true, Loose: true}},
	} {
		test.want.DMax = dMax
		if diff := cmp.Diff(test.want, pairing.ConfigOf(&test.rule, dMax)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// The time of a key's last fetch is dropped some time after the key's last use, however often the
// key was used.
func TestFetchesDropped(t *testing.T) {
	e := pairing.New(pairing.Config{Pairing: dtrace.FIFO, DMax: dMax, Synced: true, Remember: dMax, Room: pairing.NewRoom(10)})
	e.Add(nil, at(start, 1, key("l")))
	for i := range int64(10_000) {
		e.Add(nil, at(start, 10+2*i))
		e.Add(nil, at(end, 11+2*i))
	}
	const last = 11 + 2*9_999
	for _, test := range []struct {
		at   int64
		idle bool
	}{{last*us + 2*int64(dMax), false}, {last*us + 2*int64(dMax) + 1, true}} {
		if e.Advance(nil, test.at); e.Idle() != test.idle {
			t.Errorf("idle at %d: %v", test.at, e.Idle())
		}
	}
}
