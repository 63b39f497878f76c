package config

import (
	"fmt"
	"strconv"
	"time"
)

// A Key describes a key of a scope file.
type Key struct {
	Name    string
	Help    string // its meaning, in Markdown
	Default string // its value if it is left out, in Markdown; "" if there is none

	// Range describes the possible values, such as 100ms to 10s, or is "". Low and High are the limits
	// of a whole number.
	Range     string
	Low, High int

	// Section is the heading that describes the key in the reference page, or "".
	Section string
}

// A field is a key of a section of a scope file. T holds the values of the section. The fields of a
// section are the only list of its keys: they read and write the values, and describe the keys on the
// reference page.
type field[T any] struct {
	Key

	// read reads the value into a section. It is nil for a value that depends on other keys. Then
	// [readFields] returns the value unread.
	read func(*reader, value, *T) error

	// write returns the value in written form, or "" if it is to be left out.
	write func(T) string

	always bool // written even if it has the default value
}

// plain returns the field of a value with a form of its own. of returns the value's place.
func plain[T, V any](name, help string, of func(*T) *V, read func(*reader, value) (V, error), write func(V) string) field[T] {
	return field[T]{
		Key: Key{Name: name, Help: help},
		read: func(r *reader, v value, to *T) (err error) {
			*of(to), err = read(r, v)
			return err
		},
		write: func(from T) string { return write(*of(&from)) },
	}
}

func durationField[T any](name string, low, high time.Duration, help string, of func(*T) *time.Duration) field[T] {
	read := func(r *reader, v value) (time.Duration, error) { return r.duration(v, low, high) }
	f := plain(name, help, of, read, FormatDuration)
	f.Range = FormatDuration(low) + " to " + FormatDuration(high)
	return f
}

func integerField[T any, V int | uint64](name string, low, high int, help string, of func(*T) *V) field[T] {
	read := func(r *reader, v value) (V, error) { n, err := r.integer(v, low, high); return V(n), err }
	f := plain(name, help, of, read, func(n V) string { return strconv.FormatInt(int64(n), 10) })
	f.Range, f.Low, f.High = fmt.Sprintf("%d to %d", low, high), low, high
	return f
}

func booleanField[T any](name, help string, of func(*T) *bool) field[T] {
	return plain(name, help, of, (*reader).boolean, strconv.FormatBool)
}

// numberField returns the field of a number that ok accepts. possible describes these numbers.
func numberField[T any](name string, ok func(float64) bool, possible, help string, of func(*T) *float64) field[T] {
	read := func(r *reader, v value) (float64, error) { return r.share(v, ok, possible) }
	f := plain(name, help, of, read, formatNumber)
	f.Range = possible
	return f
}

// readFields reads the keys of a section. It returns the values that were given, by key.
func readFields[T any](r *reader, v value, fields []field[T], to *T) (given map[string]value, err error) {
	given = make(map[string]value)
	known := make(map[string]func(value) error)
	for _, f := range fields {
		known[f.Name] = func(v value) error {
			given[f.Name] = v
			if f.read == nil {
				return nil
			}
			return f.read(r, v, to)
		}
	}
	return given, r.fields(v, known)
}

// written returns the keys of a section that differ from the default, with their values.
func written[T any](fields []field[T], of, fallback T) []pair {
	var pairs []pair
	for _, f := range fields {
		if text := f.write(of); text != "" && (f.always || text != f.write(fallback)) {
			pairs = append(pairs, pair{f.Name, text})
		}
	}
	return pairs
}

// keys returns the descriptions of the fields. Defaults without words are the values of fallback.
func keys[T any](fields []field[T], fallback T) []Key {
	var all []Key
	for _, f := range fields {
		if f.Default == "" && f.read != nil {
			f.Default = "`" + f.write(fallback) + "`"
		}
		all = append(all, f.Key)
	}
	return all
}

// with returns the field with words for the default.
func (f field[T]) with(words string) field[T] {
	f.Default = words
	return f
}

// A Section is a mapping in a scope file.
type Section struct {
	Name string // "" for the whole file
	Keys []Key
}

// Sections returns the sections of a scope file whose keys are fixed, with their keys in the order in
// which they are written.
func Sections() []Section {
	return []Section{
		{"", keys(fileFields(), Default())},
		{"outcomes", keys(outcomeFields(), Outcome{Scale: Scale{Bins: DefaultBins}})},
		{"wrapper", keys(wrapperFields(), Wrapper{})},
		{"snapshots", keys(snapshotsFields(), defaultSnapshots())},
	}
}

// KeyOf returns a key of the whole file. It panics if there is none of this name.
func KeyOf(name string) Key {
	for _, k := range Sections()[0].Keys {
		if k.Name == name {
			return k
		}
	}
	panic("config: no key " + name)
}

// Value returns the value of a key of the whole file in written form.
func (c Config) Value(name string) string {
	for _, f := range fileFields() {
		if f.Name == name {
			return f.write(c)
		}
	}
	return ""
}
