package atomicfile_test

import (
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/beamscope/beamscope/internal/atomicfile"
	"github.com/beamscope/beamscope/internal/otheruser"
	"github.com/beamscope/beamscope/internal/trusted"
)

// Another user exchanges the folder for a link all the time: nothing is written where the link
// leads, and no temporary file is left.
func TestWriteWhileFolderIsSwapped(t *testing.T) {
	swap := otheruser.NewSwap(t)
	stop := swap.Start(t)
	written := 0
	for range 5000 {
		if err := atomicfile.Write(filepath.Join(swap.Folder, "x"), []byte("ours")); err == nil {
			written++
		} else if !errors.Is(err, trusted.ErrPrepared) {
			t.Fatalf("error %v, want %v", err, trusted.ErrPrepared)
		}
	}
	stop()
	swap.CheckSecret(t)
	if files := swap.Files(t); len(files) != 1 || written == 0 {
		t.Errorf("written %d times, and left behind: %v", written, files)
	}
}

// A folder that is exchanged while a file is written gets the file all the same, or where that
// fails, no temporary one stays there.
func TestFolderIsSwappedWhileWriting(t *testing.T) {
	broken := errors.New("broken")
	for want, left := range map[error]int{nil: 1, broken: 0} {
		swap := otheruser.NewSwap(t)
		err := atomicfile.WriteBy(filepath.Join(swap.Folder, "x"), func(w io.Writer) error {
			_, err := io.WriteString(w, "ours")
			return errors.Join(want, err, swap.Exchange())
		})
		if !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
		swap.CheckSecret(t)
		if files := swap.Files(t); len(files) != left {
			t.Errorf("%v, want %d file", files, left)
		}
	}
}
