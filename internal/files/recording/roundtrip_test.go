package recording_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/files/recording"
)

// Entries are read exactly as they were recorded, in order.
func TestEveryEntry(t *testing.T) {
	data, want := everything(t)
	r, err := recording.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if diff := diff(header, r.Header); diff != "" {
		t.Error(diff)
	}
	got, err := readAll(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Any batch is read exactly as it was recorded.
func TestBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := []recording.Entry{&config}
		for _, b := range rapid.SliceOfN(batches(), 1, 4).Draw(t, "batches") {
			want = append(want, &b)
		}
		got, err := readAll(record(t, want...))
		if err != nil {
			t.Fatal(err)
		}
		if diff := diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		for _, entry := range got[1:] {
			if l := entry.(*outcome.Batch).Time.Location(); l != time.UTC {
				t.Fatalf("time in %v", l)
			}
		}
	})
}

// No field of an entry is left out, including fields that may be added in the future.
func TestNoFieldIsLeftOut(t *testing.T) {
	for _, entry := range []recording.Entry{
		new(recording.Config), new(outcome.Batch), new(outcome.Notice), new(recording.Snapshot), new(recording.Cause),
	} {
		next := uint64(0)
		fill(t, reflect.ValueOf(entry).Elem(), &next)
		entries := []recording.Entry{&config, entry}
		got, err := readAll(record(t, entries...))
		if err != nil {
			t.Fatal(err)
		}
		if diff := diff(entries, got); diff != "" {
			t.Errorf("%T: %s", entry, diff)
		}
	}
}

// Recordings leave out the figures of groups that need Accounts, and nothing else.
func TestAccountsAreNotRecorded(t *testing.T) {
	g := outcome.Group{Key: "<0.1.0>", Successes: 2, Delays: delays(1, 1), Starts: 3, Processor: 4, Dirty: 5}
	batch := func(g outcome.Group) recording.Entry {
		return &outcome.Batch{Time: header.Time, Counts: []outcome.Counts{{Groups: []outcome.Group{g}}}}
	}
	got, err := readAll(record(t, &config, batch(g)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := diff([]recording.Entry{&config, batch(withoutAccounts(g))}, got); diff != "" {
		t.Error(diff)
	}
}

// fill sets everything in v to a non-zero value.
func fill(t *testing.T, v reflect.Value, next *uint64) {
	*next++
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(int64(*next), 7).UTC()))
			return
		}
		for i := range v.NumField() {
			fill(t, v.Field(i), next)
		}
		if i, ok := v.Addr().Interface().(*outcome.Instance); ok {
			root, child := &i.Trace.Spans[0], &i.Trace.Spans[1]
			root.Parent, root.Kind, root.Start, root.End = -1, trace.Root, i.Start, i.End
			child.Parent, child.Start, child.End = 0, root.Start, root.End
		}
		if g, ok := v.Addr().Interface().(*outcome.Group); ok {
			*g = withoutAccounts(*g)
		}
		if b, ok := v.Addr().Interface().(*outcome.Batch); ok {
			b.Loads, b.Users, b.Owners, b.Strangers, b.Renew = nil, nil, nil, false, false // recordings do not contain these
		}
		if s, ok := v.Addr().Interface().(*outcome.Spec); ok {
			s.Accounts = false // recordings do not contain it
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[outcome.Delays]() {
			v.Set(reflect.ValueOf(delays(uint32(*next), 1)))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), next)
		fill(t, v.Index(1), next)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, next)
		fill(t, value, next)
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), next)
	case reflect.String:
		v.SetString("text " + string(rune('a'+*next)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*next))
	case reflect.Uint64:
		v.SetUint(*next)
	case reflect.Uint8:
		v.SetUint(1)
	default:
		t.Fatalf("do not know how to fill a %v", v.Type())
	}
}

// A batch belongs to the configuration before it, even if that changes.
func TestChangedConfiguration(t *testing.T) {
	swapped := config
	swapped.Plan.Specs = []outcome.Spec{config.Plan.Specs[1], config.Plan.Specs[0], {Name: "x"}}
	want := []recording.Entry{&config, &batch, &swapped, &batch, &config, &batch}
	got, err := readAll(record(t, want...))
	if err != nil {
		t.Fatal(err)
	}
	if diff := diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Times are stored in UTC, whatever the time zone of the clock.
func TestTimeZone(t *testing.T) {
	b := batch
	b.Time = batch.Time.In(time.FixedZone("", 3600))
	got, err := readAll(record(t, &config, &b))
	if err != nil {
		t.Fatal(err)
	}
	if diff := diff(&batch, got[1]); diff != "" {
		t.Error(diff)
	}
}

// Data that a reader would reject is not written.
func TestLimits(t *testing.T) {
	t.Parallel() // it needs much time

	long := string(make([]byte, recording.MaxText+1))
	bins := make([]uint64, recording.MaxBins)
	for name, entry := range map[string]recording.Entry{
		"no window":    &recording.Config{},
		"file":         &recording.Config{Files: []recording.File{{Text: make([]byte, recording.MaxFile+1)}}, Plan: config.Plan},
		"files":        &recording.Config{Files: make([]recording.File, recording.MaxFiles+1), Plan: config.Plan},
		"file name":    &recording.Config{Files: []recording.File{{Name: long}}, Plan: config.Plan},
		"outcomes":     &recording.Config{Plan: outcome.Plan{Window: 1, Specs: make([]outcome.Spec, recording.MaxSpecs+1)}},
		"span":         &recording.Config{Plan: outcome.Plan{Window: 1, Specs: []outcome.Spec{{Span: long}}}},
		"plan's bins":  &recording.Config{Plan: outcome.Plan{Window: 1, Specs: []outcome.Spec{{Bins: recording.MaxBins + 1}}}},
		"expression":   &recording.Config{Plan: outcome.Plan{Window: 1, Specs: []outcome.Spec{{VM: outcome.Events{Start: long}}}}},
		"group":        &recording.Config{Plan: outcome.Plan{Window: 1, Specs: []outcome.Spec{{Group: long}}}},
		"pairing":      &recording.Config{Plan: outcome.Plan{Window: 1, Specs: []outcome.Spec{{VM: outcome.Events{Pairing: 3}}}}},
		"detail":       &recording.Config{Plan: outcome.Plan{Window: 1, Specs: []outcome.Spec{{Detail: 3}}}},
		"notice":       &outcome.Notice{Text: long},
		"cause":        &recording.Cause{Text: long},
		"bins":         &outcome.Batch{Counts: []outcome.Counts{{Bins: append(bins, 0)}}},
		"all bins":     &outcome.Batch{Counts: manyCounts(recording.MaxTotalBins/recording.MaxBins+1, bins)},
		"groups":       &outcome.Batch{Counts: []outcome.Counts{{Groups: make([]outcome.Group, recording.MaxGroups)}, {Groups: make([]outcome.Group, 1)}}},
		"key":          &outcome.Batch{Counts: []outcome.Counts{{Groups: []outcome.Group{{Key: long}}}}},
		"delays":       &outcome.Batch{Counts: []outcome.Counts{{Groups: []outcome.Group{{Delays: make(outcome.Delays, 5)}}}}},
		"counts":       &outcome.Batch{Counts: make([]outcome.Counts, recording.MaxCounts+1)},
		"instances":    &outcome.Batch{Instances: make([]outcome.Instance, recording.MaxInstances+1)},
		"trace":        &outcome.Batch{Instances: []outcome.Instance{{Trace: &trace.Trace{}}}},
		"root":         &outcome.Batch{Instances: []outcome.Instance{{End: 2, Trace: &trace.Trace{Spans: []trace.Span{{Parent: -1, End: 1}, {Kind: trace.Running, End: 1}}}}}},
		"root's start": &outcome.Batch{Instances: []outcome.Instance{{End: 2, Trace: &trace.Trace{Spans: []trace.Span{{Parent: -1, Start: 1, End: 2}, {Kind: trace.Running, Start: 1, End: 2}}}}}},
		"link":         &outcome.Batch{Instances: []outcome.Instance{{Trace: &trace.Trace{Spans: []trace.Span{{Parent: -1, Link: trace.Link{Mark: 3}}}}}}},
		"reason":       &outcome.Batch{Instances: []outcome.Instance{{Trace: &trace.Trace{Spans: []trace.Span{{Parent: -1, Reason: long}}}}}},
		"spans":        &outcome.Batch{Instances: manyTraces(recording.MaxSpans/trace.MaxSpans + 1)},
		"status":       &outcome.Batch{Instances: []outcome.Instance{{Status: 3}}},
		"name":         &outcome.Batch{Counts: []outcome.Counts{{Outcome: long}}},
		"block":        &outcome.Batch{Instances: extremeInstances(recording.MaxInstances)},
		"block, files": &recording.Config{Files: manyFiles(), Plan: config.Plan},
	} {
		var e recording.Encoder
		begun, err := e.AppendConfig([]byte("before"), &config)
		if err != nil {
			t.Fatal(err)
		}
		got, err := appendEntry(&e, begun, entry)
		if !errors.Is(err, recording.ErrLimit) {
			t.Errorf("%s: got %v, want ErrLimit", name, err)
		}
		if !bytes.Equal(got, begun) {
			t.Errorf("%s: something was appended", name)
		}
	}
}

func manyCounts(n int, bins []uint64) []outcome.Counts {
	counts := make([]outcome.Counts, n)
	for i := range counts {
		counts[i].Bins = bins
	}
	return counts
}

// manyTraces returns instances with the largest number of spans.
func manyTraces(n int) []outcome.Instance {
	t := &trace.Trace{Spans: []trace.Span{{Parent: -1, End: trace.MaxSpans - 1}}}
	for i := range int64(trace.MaxSpans - 1) {
		t.Spans = append(t.Spans, trace.Span{Kind: trace.Running, Start: i, End: i + 1})
	}
	instances := make([]outcome.Instance, n)
	for i := range instances {
		instances[i].End, instances[i].Trace = t.Spans[0].End, t
	}
	return instances
}

// manyGroups returns groups whose delays need as little space in a recording as possible.
func manyGroups(n int) []outcome.Group {
	groups := make([]outcome.Group, n)
	for i := range groups {
		groups[i].Delays = make(outcome.Delays, outcome.DelayBuckets)
	}
	return groups
}

// extremeInstances returns instances that differ as much as possible.
func extremeInstances(n int) []outcome.Instance {
	instances := make([]outcome.Instance, n)
	for i := range instances {
		if i%2 == 0 {
			instances[i] = outcome.Instance{Start: 1 << 62, End: -1 << 62, ID: 1 << 63, Process: 1 << 63}
		}
	}
	return instances
}

func manyFiles() []recording.File {
	files := make([]recording.File, 5)
	for i := range files {
		files[i].Text = make([]byte, recording.MaxFile)
	}
	return files
}

// Entries at the limits are read back.
func TestAtTheLimits(t *testing.T) {
	t.Parallel() // it needs much time

	bins := make([]uint64, recording.MaxBins)
	want := []recording.Entry{
		&config,
		&outcome.Batch{Time: header.Time, Counts: manyCounts(recording.MaxTotalBins/recording.MaxBins, bins)},
		&outcome.Batch{Time: header.Time, Counts: []outcome.Counts{{Groups: manyGroups(recording.MaxGroups)}}},
		&outcome.Batch{Time: header.Time, Instances: make([]outcome.Instance, recording.MaxInstances)},
		&outcome.Batch{Time: header.Time, Instances: manyTraces(recording.MaxSpans / trace.MaxSpans)},
		&outcome.Notice{Text: string(make([]byte, recording.MaxText))},
	}
	got, err := readAll(record(t, want...))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(want, got) {
		t.Error("not what was written")
	}
}

// Data without a configuration, which could not be decoded, is not recorded.
func TestNoConfig(t *testing.T) {
	var e recording.Encoder
	if _, err := e.AppendBatch(nil, &batch); !errors.Is(err, recording.ErrNoConfig) {
		t.Errorf("got %v, want ErrNoConfig", err)
	}
}
