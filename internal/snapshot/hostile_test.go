package snapshot

import (
	"errors"
	"testing"

	"github.com/beamscope/beamscope/internal/otheruser"
	"github.com/beamscope/beamscope/internal/trusted"
)

// Another user exchanges the folder of the snapshots for a link all the time: nothing is written
// where the link leads, and no temporary file is left.
func TestWriteWhileFolderIsSwapped(t *testing.T) {
	swap := otheruser.NewSwap(t)
	stop := swap.Start(t)
	written := 0
	for range 300 { // each is synchronised with the disk
		if _, err := writeFile(swap.Folder, "snapshot"+extension, [][]byte{[]byte("ours")}); err == nil {
			written++
		} else if !errors.Is(err, trusted.ErrPrepared) {
			t.Fatal(err)
		}
	}
	stop()
	swap.CheckSecret(t)
	if files := swap.Files(t); len(files) != written || written == 0 {
		t.Errorf("%d files, %d were written", len(files), written)
	}
}
