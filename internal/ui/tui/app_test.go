package tui_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A closed terminal ends an app without an error. Run returns any other error of the terminal.
func TestTerminalFails(t *testing.T) {
	for _, test := range []struct {
		err   error
		quiet bool
	}{
		{io.EOF, true},
		{&os.PathError{Op: "read", Path: "/dev/tty", Err: syscall.EIO}, true},
		{errors.New("broken"), false},
	} {
		t.Run(fmt.Sprint(test.err), func(t *testing.T) {
			screen := tcell.NewSimulationScreen("UTF-8")
			app, err := tui.NewApp(t.Context(), screen)
			if err != nil {
				t.Fatal(err)
			}
			app.SetRoot(tview.NewBox(), true)
			err = app.Run(tui.Show{
				Work: func(ctx context.Context) error {
					if err := app.Screen.PostEvent(tcell.NewEventError(test.err)); err != nil {
						t.Error(err)
					}
					<-ctx.Done()
					return nil
				},
				Refresh: func() {},
				Ended:   func(error) {},
			})
			if (err == nil) != test.quiet {
				t.Errorf("error %v", err)
			}
		})
	}
}
