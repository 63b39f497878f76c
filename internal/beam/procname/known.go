package procname

import (
	"fmt"
	"slices"

	"github.com/beamscope/beamscope/internal/beam/debuginfo"
	"github.com/beamscope/beamscope/internal/beam/samecode"
	"github.com/beamscope/beamscope/usdt"
)

// A knownBuild contains the places of structures' members in a build of the VM that has been
// stripped of its debugging information. The file known_gen.go has those of all known builds.
type knownBuild struct {
	id     string // GNU build ID of the executable, in hexadecimal
	ranges uint64 // address of the static variable r, as linked

	// structs are the structures by name, and in each the members by path.
	structs map[string]knownStruct
}

// A knownStruct contains the members of a structure by their path, see [debuginfo.Struct.Member].
type knownStruct map[string]knownMember

// A knownMember is a member of a structure, in bytes.
type knownMember struct{ offset, size uint64 }

// Member is as [debuginfo.Struct.Member].
func (s knownStruct) Member(path string, limit uint64) (offset, size uint64, err error) {
	m, ok := s[path]
	if !ok || m.offset > limit {
		return 0, 0, debuginfo.ErrMember
	}
	return m.offset, m.size, nil
}

// knownLayout returns the layout of an executable whose build is known. ok is false if the build
// is unknown.
func knownLayout(f *usdt.File) (l layout, ok bool, err error) {
	id := f.BuildID()
	for _, b := range knownBuilds() {
		if id != "" && b.id == id {
			if l, err = b.layout(f); err != nil {
				err = fmt.Errorf("%w: %s: %w", ErrNoLayout, f.Name(), err)
			}
			return l, true, err
		}
	}
	return layout{}, false, nil
}

// knownByCode returns the layout of an executable that has the same code as a known build, and another
// build ID or none. ok is false if there is no such build, or if the executable does not show it.
func knownByCode(f *usdt.File) (l layout, ok bool) {
	const anyRelease = 0
	match, err := samecode.Recognise(f, anyRelease)
	if err != nil {
		return layout{}, false
	}
	all := knownBuilds()
	i := slices.IndexFunc(all, func(b knownBuild) bool { return b.id == match.Build.ID })
	if i < 0 {
		return layout{}, false
	}
	if all[i].ranges, ok = match.Variable(rangesVariable); !ok {
		return layout{}, false
	}
	l, err = all[i].layout(f)
	return l, err == nil
}

// rangesVariable is the static variable of beam_ranges.c with the loaded code.
const rangesVariable = "r"

// layout returns the layout of an executable of the build.
func (b knownBuild) layout(f *usdt.File) (layout, error) {
	structs := make(map[string]structure)
	for name, s := range b.structs {
		structs[name] = s
	}
	l := layout{known: true}
	if err := l.fill(structs); err != nil {
		return layout{}, err
	}
	err := l.findVariables(f)
	if err == nil && l.noCode == nil {
		l.code.ranges = b.ranges
		l.code.active, err = f.Variable("the_active_code_index")
	}
	return l, err
}

// The function with which the VM spawns its first process, in OTP 21 and later.
const firstFunction = "erl_init:start/2"

// prove checks a layout that was chosen by the build ID or by the code of some functions: it reads the
// VM's first process with it. This is needed because the owner of an executable can give it any build
// ID, and because not all of the code is compared.
func (r *Reader) prove(init Name) error {
	if init.Spawned != firstFunction {
		return fmt.Errorf("%w: it seems to be a known build, but its first process seems to be spawned with %s, not %s", ErrNoLayout, init.Spawned, firstFunction)
	}
	return nil
}
