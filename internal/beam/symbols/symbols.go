// Package symbols finds files with the symbols and the debugging information that were stripped from
// an executable.
//
// It looks in folders that the user has named, then at the usual places, as gdb does (see gdb's
// manual, "Debugging Information in Separate Files"): by the build ID of the executable, and by the
// name in its section .gnu_debuglink. It looks in the file system of this process only. Any user can give a
// process another file system, with files there that seem to belong to root.
package symbols

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/beamscope/beamscope/usdt"
)

// Usual is the folder where packages of distributions put debugging information.
const Usual = "/usr/lib/debug"

// byBuildID is the subfolder of Usual that contains files named after their build IDs.
const byBuildID = ".build-id"

// maxBytes is the maximum size of a file whose checksum is needed.
const maxBytes = 256 << 20

// A Store finds files. A nil Store has no folders, and looks only at the usual places. Several
// goroutines may use it at once.
type Store struct {
	folders []string
}

// New returns a Store that searches these folders first. A folder may contain the files themselves,
// by the name in .gnu_debuglink; a tree by build IDs as below /usr/lib/debug/.build-id, directly or
// in the places where a package has it; or the tree of debuginfod's cache.
func New(folders ...string) *Store { return &Store{folders: folders} }

// Find opens the file with the symbols of an executable. The file must belong
// to the same build: it has the executable's build ID or, if the executable has none, the checksum
// in its .gnu_debuglink. Its owner must be root or the owner of the executable, because other users
// may be able to write to folders beside it. In a folder of the Store, the owner
// may also be the user of this process, or the user who called it by sudo. The caller closes the
// file.
//
// A file system in user space may not answer. Then Find waits forever.
func (s *Store) Find(ctx context.Context, exe *usdt.File) (f *usdt.File, ok bool) {
	w := newWanted(ctx, exe)
	if s != nil {
		for _, folder := range s.folders {
			for _, name := range w.namesIn() {
				file, err := usdt.OpenBelow(folder, name)
				if f, ok := w.accept(ctx, file, err, callers()...); ok {
					return f, true
				}
			}
		}
	}
	self, err := usdt.OpenProcess(os.Getpid())
	if err != nil {
		return nil, false
	}
	for _, name := range w.usual() {
		file, err := self.OpenFile(name)
		if f, ok := w.accept(ctx, file, err); ok {
			return f, true
		}
	}
	return nil, false
}

// A wanted is what identifies the file with the symbols of an executable.
type wanted struct {
	exe     *usdt.File
	buildID string // "" if the executable has none
	link    string // the name in .gnu_debuglink, "" if there is none
	sum     uint32 // if link is not empty
}

func newWanted(ctx context.Context, exe *usdt.File) wanted {
	w := wanted{exe: exe, buildID: exe.BuildID()}
	const shortest = 2 // bytes of a build ID, of which the first one is a folder
	if len(w.buildID) < 2*shortest {
		w.buildID = ""
	}
	if name, sum, ok := exe.DebugLink(ctx); ok {
		w.link, w.sum = name, sum
	}
	return w
}

// namesIn returns the paths where the file may be in a folder that the user has named.
func (w wanted) namesIn() []string {
	var names []string
	if w.buildID != "" {
		file := filepath.Join(w.buildID[:2], w.buildID[2:]+".debug")
		names = []string{
			filepath.Join(byBuildID, file), file, w.buildID + ".debug",
			filepath.Join(Usual[1:], byBuildID, file), // of an unpacked package
			filepath.Join(w.buildID, "debuginfo"),     // the cache of debuginfod
		}
	}
	if w.link != "" {
		names = append(names, w.link)
	}
	return names
}

// usual returns the usual places of the file.
func (w wanted) usual() []string {
	var names []string
	if w.buildID != "" {
		names = append(names, filepath.Join(Usual, byBuildID, w.buildID[:2], w.buildID[2:]+".debug"))
	}
	if dir := filepath.Dir(w.exe.Name()); w.link != "" && filepath.IsAbs(dir) {
		names = append(names, filepath.Join(dir, w.link), filepath.Join(dir, ".debug", w.link), filepath.Join(Usual, dir, w.link))
	}
	return names
}

// accept returns an opened file if it is the wanted one, and otherwise closes it. It checks the
// open file, since its name may lead to another file by then.
func (w wanted) accept(ctx context.Context, file *os.File, err error, owners ...uint32) (f *usdt.File, ok bool) {
	if err != nil {
		return nil, false
	}
	if f, err = usdt.OpenFile(file); err != nil {
		return nil, false
	}
	if !w.trusts(f, owners) || f.Machine() != w.exe.Machine() || !w.sameBuild(ctx, f) {
		f.Close()
		return nil, false
	}
	return f, true
}

// sameBuild reports whether a file is of the same build as the executable.
func (w wanted) sameBuild(ctx context.Context, f *usdt.File) bool {
	if w.buildID != "" {
		return f.BuildID() == w.buildID
	}
	if w.link == "" {
		return false
	}
	sum, err := f.Checksum(ctx, maxBytes)
	return err == nil && sum == w.sum
}

// trusts reports whether a file belongs to root, to the owner of the executable, or to one of
// these users. Files without a size are of the kernel, such as a process's command line, which belongs to
// root and contains what the process wants.
func (w wanted) trusts(f *usdt.File, owners []uint32) bool {
	of, err := ownerOf(f)
	if info, statErr := f.Stat(); err != nil || statErr != nil || info.Size() == 0 {
		return false
	}
	if of == 0 {
		return true
	}
	for _, owner := range owners {
		if of == owner {
			return true
		}
	}
	owner, err := ownerOf(w.exe)
	return err == nil && of == owner
}

func ownerOf(f *usdt.File) (uid uint32, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, syscall.ENOTSUP
	}
	return stat.Uid, nil
}

// callers returns the user of this process and, if that is root, the one who called it by sudo.
func callers() []uint32 {
	uid := os.Geteuid()
	users := []uint32{uint32(uid)}
	if by, err := strconv.ParseUint(os.Getenv("SUDO_UID"), 10, 32); err == nil && uid == 0 {
		users = append(users, uint32(by))
	}
	return users
}
