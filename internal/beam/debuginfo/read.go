package debuginfo

import (
	"context"
	"fmt"

	"github.com/beamscope/beamscope/usdt"
)

// Read reads the part of a file's debugging information that describes types. It reads other parts
// when they are needed, so the file must stay open. All methods of the result end with the context.
//
// The error wraps [ErrNone] if the file has no debugging information, and [usdt.ErrFormat],
// [ErrFormat] or [ErrLimit] if Read cannot read it.
func Read(ctx context.Context, f *usdt.File) (d *Data, err error) {
	d = &Data{ctx: ctx, file: f, sections: make(map[string][]byte), steps: maxSteps, tables: make(map[uint64]table)}
	for name, data := range map[string]*[]byte{
		"info": &d.info, "abbrev": &d.abbreviations, "str": &d.strings, "line_str": &d.lineStrings, "str_offsets": &d.stringOffsets,
	} {
		if *data, err = d.section(name); err != nil {
			return nil, err
		}
	}
	if len(d.info) == 0 {
		return nil, ErrNone
	}
	return d, d.findUnits()
}

// section returns a section, or nil if the file has none. It reads each section once.
func (d *Data) section(name string) (data []byte, err error) {
	if data, ok := d.sections[name]; ok {
		return data, nil
	}
	defer func() { // debug/elf decompresses the section and may panic on malformed data
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%w: section %s: %v", ErrFormat, name, problem)
		}
	}()
	limit := map[string]uint64{"info": maxInfo, "str": maxStrings, "loc": maxLists, "loclists": maxLists}[name]
	if limit == 0 {
		limit = maxOthers
	}
	if data, err = d.file.Section(d.ctx, ".debug_"+name, limit); err != nil {
		return nil, err
	}
	d.sections[name] = data
	return data, nil
}
