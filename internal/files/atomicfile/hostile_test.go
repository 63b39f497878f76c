package atomicfile_test

import (
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/beamscope/beamscope/internal/files/atomicfile"
	"github.com/beamscope/beamscope/internal/files/trusted"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
)

// If another user keeps exchanging the folder for a link, Write never writes to the link's target
// and leaves no temporary file.
func TestWriteWhileFolderIsSwapped(t *testing.T) {
	swap := otheruser.NewSwap(t)
	stop := swap.Start(t)
	written := 0
	for n := 0; n < 5000 || written == 0; n++ {
		if err := atomicfile.Write(filepath.Join(swap.Folder, "x"), []byte("ours")); err == nil {
			written++
		} else if !errors.Is(err, trusted.ErrPrepared) {
			t.Fatalf("error %v, want %v", err, trusted.ErrPrepared)
		}
	}
	stop()
	swap.CheckSecret(t)
	if files := swap.Files(t); len(files) != 1 {
		t.Errorf("written %d times, and left behind: %v", written, files)
	}
}

// If a folder is exchanged during a write, the file is still written to that folder. If the write
// fails, no temporary file is left there.
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
