package recording_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/files/recording"
)

// ours reports whether a reader may return this error for bad data.
func ours(err error) bool {
	return errors.Is(err, recording.ErrDamaged) || errors.Is(err, recording.ErrNotRecording) || errors.Is(err, recording.ErrVersion)
}

// ends returns the offsets at which the blocks of a recording end.
func ends(data []byte) []int {
	var ends []int
	for at := 16; at < len(data); {
		at += 12 + int(binary.LittleEndian.Uint32(data[at:])>>8)
		ends = append(ends, at)
	}
	return ends
}

// intact returns the number of entries after the header that end before the byte at n.
func intact(data []byte, n int) int {
	whole := 0
	for _, end := range ends(data) {
		if end <= n {
			whole++
		}
	}
	return max(0, whole-1)
}

// Wherever a recording breaks off, the reader returns everything before, and reports the break.
func TestTruncatedEverywhere(t *testing.T) {
	data, _ := everything(t)
	entries, _ := readAll(data)
	for n := range data {
		got, err := readAll(data[:n])
		if n == 0 != errors.Is(err, recording.ErrNotRecording) || n > 0 != errors.Is(err, recording.ErrTorn) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
		if want := entries[:intact(data, n)]; !reflect.DeepEqual(want, nonNil(got)) {
			t.Fatalf("%d of %d bytes: %s", n, len(data), diff(want, got))
		}
	}
}

// Whichever bit is wrong, the reader returns everything before its block, and reports the damage.
func TestEveryBitFlipped(t *testing.T) {
	data, _ := everything(t)
	entries, _ := readAll(data)
	for bit := range 8 * len(data) {
		bad := bytes.Clone(data)
		bad[bit/8] ^= 1 << (bit % 8)
		got, err := readAll(bad)
		if !ours(err) || errors.Is(err, recording.ErrTorn) {
			t.Fatalf("bit %d: %v", bit, err)
		}
		if want := entries[:intact(data, bit/8)]; !reflect.DeepEqual(want, nonNil(got)) {
			t.Fatalf("bit %d: %s", bit, diff(want, got))
		}
	}
}

func nonNil(entries []recording.Entry) []recording.Entry {
	return append([]recording.Entry{}, entries...)
}

// resealed changes the block at i and corrects its checksums, as an attacker would.
func resealed(data []byte, i int, change func(block []byte)) []byte {
	data = bytes.Clone(data)
	at := append([]int{16}, ends(data)...)
	block := data[at[i]:at[i+1]]
	change(block)
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint32(block[4:], crc32.Checksum(block[:4], table))
	body := block[:len(block)-4]
	binary.LittleEndian.PutUint32(block[len(body):], crc32.Checksum(body, table))
	return data
}

// Messages describe the damage and its place.
func TestMessages(t *testing.T) {
	data, _ := everything(t)
	at := ends(data)
	flipped := func(n int) []byte {
		bad := bytes.Clone(data)
		bad[n] ^= 0x10
		return bad
	}
	other := bytes.Clone(data)
	other[8] = 1
	binary.LittleEndian.PutUint32(other[12:], crc32.Checksum(other[:12], crc32.MakeTable(crc32.Castagnoli)))
	for name, test := range map[string]struct {
		data []byte
		want error
		text string
	}{
		"empty":              {nil, recording.ErrNotRecording, "not a recording"},
		"text":               {[]byte("outcomes: {}\n"), recording.ErrNotRecording, "not a recording"},
		"another version":    {other, recording.ErrVersion, "version 1: want 3"},
		"version":            {flipped(8), recording.ErrDamaged, "at byte 0: the check of the version does not match"},
		"no header":          {data[:16], recording.ErrTorn, "at byte 16: its end is missing"},
		"not a header":       {append(bytes.Clone(data[:16]), data[at[0]:]...), recording.ErrDamaged, "it does not begin with a header"},
		"length":             {flipped(at[2] + 2), recording.ErrDamaged, "the head of the block does not match its check"},
		"payload":            {flipped(at[4] + 9), recording.ErrDamaged, "damaged recording: after 1 window, at byte"},
		"cut":                {data[:at[5]+11], recording.ErrTorn, "incomplete: after 1 window, at byte 629: it ends within a block of"},
		"no end":             {data[:at[6]], recording.ErrTorn, "after 2 windows, at byte"},
		"data after the end": {append(bytes.Clone(data), 0), recording.ErrDamaged, "something follows the end"},
		"a missing block":    {append(bytes.Clone(data[:at[4]]), data[at[5]:]...), recording.ErrDamaged, "the end is that of 7 blocks and 2 windows, and there are 6 and 2"},
		"two headers":        {append(bytes.Clone(data[:at[0]]), data[16:]...), recording.ErrDamaged, "a second header"},
		"no config":          {append(bytes.Clone(data[:at[2]]), data[at[3]:]...), recording.ErrDamaged, "a window without a configuration before it"},
		"kind":               {resealed(data, 5, func(b []byte) { b[0] = 'Q' }), recording.ErrVersion, "a block of kind 'Q'"},
		"contents":           {resealed(data, 5, func(b []byte) { b[0] = 'B' }), recording.ErrDamaged, "block B: "},
	} {
		_, err := readAll(test.data)
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: got %v, want %q in it", name, err, test.text)
		}
	}
}

// A failing disk is not reported as damage of the recording.
func TestReadError(t *testing.T) {
	data, _ := everything(t)
	broken := errors.New("broken disk")
	for n := range data {
		r, err := recording.NewReader(io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(broken)))
		for err == nil {
			_, err = r.Next()
		}
		if !errors.Is(err, broken) || ours(err) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

// After an error the reader returns the same error again.
func TestErrorStays(t *testing.T) {
	data, _ := everything(t)
	r, err := recording.NewReader(iotest.OneByteReader(bytes.NewReader(data[:len(data)-1])))
	for err == nil {
		_, err = r.Next()
	}
	if _, again := r.Next(); again != err {
		t.Errorf("first %v, then %v", err, again)
	}
}

// Readers handle arbitrary payloads of all kinds with correct checksums. Without a block of kind
// end at the end of the data, a recording is never complete.
func FuzzPayload(f *testing.F) {
	data, _ := everything(f)
	start := 16
	for _, end := range ends(data) {
		f.Add(data[start], data[start+8:end-4])
		start = end
	}
	f.Fuzz(func(t *testing.T, kind byte, payload []byte) {
		blocks := bytes.Clone(data[:ends(data)[2]])
		block := append(append([]byte{}, data[16:24]...), payload...)
		binary.LittleEndian.PutUint32(block, uint32(len(payload))<<8|uint32(kind))
		blocks = append(append(blocks, data[ends(data)[2]:ends(data)[3]]...), append(block, 0, 0, 0, 0)...)
		sealed := resealed(blocks, 4, func([]byte) {})
		if _, err := readAll(sealed); !ours(err) && (err != nil || kind != 'E') {
			t.Fatalf("got %v", err)
		}
	})
}

func FuzzReader(f *testing.F) {
	data, _ := everything(f)
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := readAll(data); err != nil && !ours(err) {
			t.Fatalf("got %v", err)
		}
	})
}

// Traces that no writer makes are rejected before memory is allocated for them.
func TestHostileTraces(t *testing.T) {
	// A window with an instance of the given length, up to its trace. Below are the spans of an
	// instance of 5 ns: the root and a part of it.
	window := func(took []byte) []byte {
		return slices.Concat([]byte{0, 2, 0, 0, 0, 1, 8, 0, 0, 0, 0, 0}, took, []byte{0, 0, 0})
	}
	root, part := []byte{0, 0, 0, 0}, []byte{1, 0, 0, 10, 0, 0}
	spans := func(n byte, spans ...[]byte) []byte { return append([]byte{n}, slices.Concat(spans...)...) }
	change := func(span []byte, at int, to byte) []byte {
		span = bytes.Clone(span)
		span[at] = to
		return span
	}
	forever := binary.AppendVarint(nil, trace.MaxDuration+1)
	end := []byte{0, 0, 0, 0, 0} // end of the batch
	for name, test := range map[string]struct {
		took  []byte
		trace []byte
		want  string
	}{
		"good":                         {[]byte{10}, spans(2, root, part, end), ""},
		"none":                         {[]byte{10}, spans(0, end), "a trace without a root"},
		"too many":                     {[]byte{10}, binary.AppendUvarint(nil, trace.MaxSpans+1), "257 spans: at most 256"},
		"more than the data contains":  {[]byte{10}, binary.AppendUvarint(nil, trace.MaxSpans), "256 spans in 0 bytes"},
		"a part without a kind":        {[]byte{10}, spans(2, root, change(part, 0, byte(trace.Root)), end), "span 1: kind 0"}, // all other values are kinds
		"an invalid mark":              {[]byte{10}, spans(2, root, change(part, 0, 1|3<<4), end), "mark 3"},
		"a root with a parent":         {[]byte{10}, spans(2, change(root, 1, 1), part, end), "span 0, which is 1 behind its parent"},
		"a parent that does not exist": {[]byte{10}, spans(2, root, change(part, 1, 1), end), "span 1, which is 1 behind its parent"},
		"far behind":                   {[]byte{10}, spans(2, root, part[:1], binary.AppendUvarint(nil, 1<<63), part[2:], end), "which is 9223372036854775808 behind its parent"},
		"a gap":                        {[]byte{10}, spans(2, root, change(part, 3, 8), end), "its children have come to"},
		"ends before":                  {[]byte{9}, spans(2, root, change(part, 3, 9), end), "from 5 to 0"},
		"too long":                     {forever, spans(2, root, slices.Concat(part[:3], forever, part[4:]), end), "span 0: 17592186044417 ns: more than 17592186044416"},
		"an invalid link mark":         {[]byte{10}, spans(2, root, change(part, 0, 1|1<<6), []byte{0, 0, 0, 0, 3}, end), "a link with mark 3"},
	} {
		data, _ := everything(t)
		at := ends(data)
		head := append(bytes.Clone(data[:at[0]]), data[at[2]:at[3]]...) // header and configuration
		payload := append(window(test.took), test.trace...)
		block := append(binary.LittleEndian.AppendUint32(nil, uint32(len(payload))<<8|'B'), 0, 0, 0, 0)
		block = append(append(block, payload...), 0, 0, 0, 0)
		got, err := readAll(resealed(append(head, block...), 2, func([]byte) {}))
		if test.want == "" {
			if len(got) != 2 {
				t.Errorf("%s: got %d entries, %v", name, len(got), err)
			}
			continue
		}
		if !errors.Is(err, recording.ErrDamaged) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, test.want)
		}
	}
}

// Groups that no writer makes are rejected before memory is allocated for them.
func TestHostileGroups(t *testing.T) {
	// A window with the counts of an outcome, up to its groups, and one group up to its delays.
	window := []byte{0, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	group := []byte{1, 0, 0, 0, 0, 0, 0, 0, 0}
	for name, test := range map[string]struct {
		groups []byte
		want   string
	}{
		"too many":                    {binary.AppendUvarint(nil, recording.MaxGroups+1), "65537 groups: at most 65536"},
		"more than the data contains": {binary.AppendUvarint(nil, recording.MaxGroups), "65536 groups in 0 bytes"},
		"few buckets":                 {append(group[:9:9], 5, 5), "delays in 5 buckets: want none or 172"},
		"many buckets":                {append(group[:9:9], 173, 1, 173, 1), "173 bins: at most 172 here"},
		"more than 32 bits":           {binary.AppendUvarint(append(group[:9:9], 172, 1, 0, 1), 1<<32), "4294967296 in a bin: at most 4294967295"},
	} {
		data, _ := everything(t)
		at := ends(data)
		head := append(bytes.Clone(data[:at[0]]), data[at[2]:at[3]]...) // header and configuration
		payload := append(bytes.Clone(window), test.groups...)
		block := append(binary.LittleEndian.AppendUint32(nil, uint32(len(payload))<<8|'B'), 0, 0, 0, 0)
		block = append(append(block, payload...), 0, 0, 0, 0)
		_, err := readAll(resealed(append(head, block...), 2, func([]byte) {}))
		if !errors.Is(err, recording.ErrDamaged) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, test.want)
		}
	}
}
