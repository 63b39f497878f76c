package snapshot

import (
	"errors"
	"testing"

	"github.com/beamscope/beamscope/internal/files/trusted"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
)

// Another user keeps replacing the folder of the snapshots with a link and back. Nothing is
// written where the link leads, and no temporary file is left.
func TestWriteWhileFolderIsSwapped(t *testing.T) {
	swap := otheruser.NewSwap(t)
	stop := swap.Start(t)
	written := 0
	for n := 0; n < 300 || written == 0; n++ { // each one is synchronised with the disk
		if _, err := writeFile(swap.Folder, "snapshot"+extension, [][]byte{[]byte("ours")}); err == nil {
			written++
		} else if !errors.Is(err, trusted.ErrPrepared) {
			t.Fatal(err)
		}
	}
	stop()
	swap.CheckSecret(t)
	if files := swap.Files(t); len(files) != written {
		t.Errorf("%d files, %d were written", len(files), written)
	}
}
