// Package symbols finds files with the symbols and the debugging information that were stripped from
// an executable.
//
// It looks in folders that the user has named, then at the usual places, as gdb does (see gdb's
// manual, "Debugging Information in Separate Files"): by the build ID of the executable, and by the
// name in its section .gnu_debuglink. It looks in the file system of this process only. Any user can give a
// process another file system, with files there that seem to belong to root, and show it its executable under
// any name.
package symbols

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/beamscope/beamscope/internal/files/trusted"
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
// in its .gnu_debuglink. At the usual places, only root and the user of this process may be able to change
// the file or to replace it. In a folder of the Store, which the user trusts, its owner may also be the owner of
// the executable, or the user who called this process by sudo. The caller closes the file.
//
// The error wraps [ErrNone] if there is no such file. It then names each file that is at the right place, and says
// why it is another one.
//
// A file system in user space may not answer. Then Find waits forever.
func (s *Store) Find(ctx context.Context, exe *usdt.File) (*usdt.File, error) {
	w := newWanted(ctx, exe)
	none := ErrNone
	if s != nil {
		for _, folder := range s.folders {
			for _, name := range w.namesIn() {
				file, err := usdt.OpenBelow(folder, name)
				f, err := w.accept(ctx, file, err)
				if err == nil {
					return f, nil
				}
				none = besides(none, filepath.Join(folder, name), err)
			}
		}
	}
	self, err := usdt.OpenProcess(os.Getpid())
	if err != nil {
		return nil, err
	}
	for _, name := range w.usual() {
		file, err := self.OpenFile(name)
		f, err := w.accept(ctx, file, err)
		if err == nil {
			return f, nil
		}
		none = besides(none, name, err)
	}
	return nil, none
}

// besides adds a file that is not the wanted one to an error, if it is there.
func besides(none error, name string, why error) error {
	if errors.Is(why, fs.ErrNotExist) {
		return none
	}
	if why, ok := errors.AsType[*fs.PathError](why); ok {
		return fmt.Errorf("%w; %s: %w", none, name, why.Err)
	}
	return fmt.Errorf("%w; %s: %w", none, name, why)
}

// ErrNone means that there is no file with the symbols of an executable.
var ErrNone = errors.New("no file with its symbols was found")

// The reasons why a file is not the wanted one.
var (
	errBuild = errors.New("it is of another build")
	errOwner = errors.New("it is empty, or belongs to a user who is not trusted")
)

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

// usual returns the usual places of the file, as paths without links. Only root and the user of this process
// can change what is there.
func (w wanted) usual() []string {
	var names []string
	add := func(name string, links bool) {
		if at, err := trusted.Path(name); err == nil && (links || at == name) {
			names = append(names, at)
		}
	}
	if w.buildID != "" {
		add(filepath.Join(Usual, byBuildID, w.buildID[:2], w.buildID[2:]+".debug"), true)
	}
	if folder, ok := w.folder(); ok {
		add(filepath.Join(folder, w.link), false)
		add(filepath.Join(folder, ".debug", w.link), false)
		add(filepath.Join(Usual, folder, w.link), true)
	}
	return names
}

// folder returns the folder of the executable, as a path without links. ok is false if the executable names no
// file of its symbols, or if it is not there: the folder is in the file system of this process, and the
// name of the executable may be from another one.
func (w wanted) folder() (folder string, ok bool) {
	if w.link == "" || !filepath.IsAbs(w.exe.Name()) {
		return "", false
	}
	folder, err := trusted.Path(filepath.Dir(w.exe.Name()))
	if err != nil {
		return "", false
	}
	there, err := os.Stat(filepath.Join(folder, filepath.Base(w.exe.Name())))
	if err != nil {
		return "", false
	}
	info, err := w.exe.Stat()
	return folder, err == nil && os.SameFile(info, there)
}

// accept returns an opened file if it is the wanted one, and otherwise closes it. It checks the
// open file, since its name may lead to another file by then.
func (w wanted) accept(ctx context.Context, file *os.File, err error) (*usdt.File, error) {
	if err != nil {
		return nil, err
	}
	f, err := usdt.OpenFile(file)
	switch {
	case err != nil:
		return nil, errors.Unwrap(err) // without the name
	case !w.trusts(f):
		err = errOwner
	case f.Machine() != w.exe.Machine() || !w.sameBuild(ctx, f):
		err = errBuild
	default:
		err = w.exe.Fits(f)
	}
	if err == nil {
		return f, nil
	}
	f.Close()
	return nil, err
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

// trusts reports whether a file belongs to root, to the owner of the executable, or to one of the callers.
// Files without a size are of the kernel, such as a process's command line, which belongs to
// root and contains what the process wants.
func (w wanted) trusts(f *usdt.File) bool {
	of, err := ownerOf(f)
	if info, statErr := f.Stat(); err != nil || statErr != nil || info.Size() == 0 {
		return false
	}
	if of == 0 || slices.Contains(callers(), of) {
		return true
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
