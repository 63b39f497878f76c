package debuginfo

import (
	"fmt"
	"strings"
)

// A Struct is a structure that the debugging information describes.
type Struct struct {
	data *Data
	at   Offset
}

// Structs finds structures by their names, or by the names of their typedefs: each in the first
// unit with its complete description. Structures without a description are missing in the result.
func (d *Data) Structs(names ...string) (map[string]Struct, error) {
	missing := make(map[string]bool)
	for _, name := range names {
		missing[name] = true
	}
	found := make(map[string]Struct)
	for i := range d.units {
		if len(missing) == 0 {
			break
		}
		if err := d.structsOf(&d.units[i], missing, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// structsOf moves the structures that a unit describes from missing to found.
func (d *Data) structsOf(u *unit, missing map[string]bool, found map[string]Struct) error {
	root, err := d.root(u)
	if err != nil || !root.children {
		return err
	}
	if root.tag != tagCompileUnit && root.tag != tagPartialUnit && root.tag != tagTypeUnit {
		return nil
	}
	return d.children(u, root, func(e entry) bool {
		if (e.tag == tagStructType || e.tag == tagTypedef) && missing[string(e.name)] && !e.declaration && d.isStruct(e.at) {
			found[string(e.name)] = Struct{d, e.at}
			delete(missing, string(e.name))
		}
		return len(missing) > 0
	})
}

// children calls f with the children of an entry until it returns false.
func (d *Data) children(u *unit, parent entry, f func(entry) bool) error {
	if !parent.children {
		return nil
	}
	for at := parent.next; at < u.end; { // a unit's last list of children need not be terminated
		e, err := d.entryAt(u, at)
		if err != nil {
			return err
		}
		if e.tag == 0 || !f(e) {
			return nil
		}
		if at, err = d.behind(u, e); err != nil {
			return err
		}
	}
	return nil
}

// behind returns the offset after an entry and its children.
func (d *Data) behind(u *unit, e entry) (uint64, error) {
	for at, depth := e, 0; ; {
		switch {
		case at.tag == 0:
			depth--
		case at.children && at.sibling > at.next && at.sibling <= u.end: // siblings only lead forward
			at.next = at.sibling
		case at.children:
			depth++
		}
		if depth <= 0 || at.next >= u.end {
			return at.next, nil
		}
		if depth > maxNesting {
			return 0, fmt.Errorf("%w: more than %d entries within each other at %#x", ErrLimit, maxNesting, at.at)
		}
		var err error
		if at, err = d.entryAt(u, at.next); err != nil {
			return 0, err
		}
	}
}

// isStruct reports whether a type is a structure with members.
func (d *Data) isStruct(at Offset) bool {
	_, e, err := d.resolve(at)
	return err == nil && e.tag == tagStructType && e.children
}

// resolve follows typedefs and qualifiers and returns the entry of the type itself.
func (d *Data) resolve(at Offset) (*unit, entry, error) {
	const most = 32 // bound, since the references may form a cycle
	for range most {
		u, e, err := d.entry(at)
		if err != nil {
			return nil, entry{}, err
		}
		switch e.tag {
		case tagTypedef, tagConstType, tagVolatileType:
			if !e.hasType {
				return nil, entry{}, ErrMember
			}
			at = e.typ
		default:
			return u, e, nil
		}
	}
	return nil, entry{}, ErrMember
}

// Member returns the place of a member, in bytes from the beginning of the structure, and its size
// in bytes; for an array, the size of its elements. The path has the names of structures and unions
// inwards, as in "r.o.max". The error wraps [ErrMember] if there is no such member, or if it is
// more than limit bytes from the beginning.
func (s Struct) Member(path string, limit uint64) (offset, size uint64, err error) {
	at := s.at
	for name := range strings.SplitSeq(path, ".") {
		member, err := s.data.member(at, name)
		if err != nil {
			return 0, 0, err
		}
		if member.offset < 0 || uint64(member.offset) > limit || offset+uint64(member.offset) > limit {
			return 0, 0, fmt.Errorf("%w: more than %d bytes from the beginning", ErrMember, limit)
		}
		at, offset = member.typ, offset+uint64(member.offset)
	}
	size, err = s.data.size(at)
	return offset, size, err
}

// member finds a member of a structure or union. Members of a union have no offset.
func (d *Data) member(at Offset, name string) (entry, error) {
	u, parent, err := d.resolve(at)
	if err != nil {
		return entry{}, err
	}
	var found entry
	err = d.children(u, parent, func(e entry) bool {
		if e.tag == tagMember && string(e.name) == name && e.hasType {
			found = e
		}
		return found.tag == 0
	})
	if err == nil && found.tag == 0 {
		err = ErrMember
	}
	return found, err
}

// size returns the size of a type.
func (d *Data) size(at Offset) (uint64, error) {
	_, e, err := d.resolve(at)
	if err == nil && e.tag == tagArrayType && e.hasType {
		_, e, err = d.resolve(e.typ)
	}
	const pointer = 8 // on all supported machines
	switch {
	case err != nil:
		return 0, err
	case e.size >= 0:
		return uint64(e.size), nil
	case e.tag == tagPointerType:
		return pointer, nil
	}
	return 0, fmt.Errorf("%w: it has no size", ErrMember)
}
