package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/export"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// export asks for a file and writes the selected plot or table to it.
func (d *Dashboard) export() {
	f, system := d.frame(), d.scene.systemShown()
	if f == nil || system == nil {
		d.say(doubtful, "there is nothing to export yet")
		return
	}
	picture, name, err := d.picture(f, system)
	if err != nil {
		d.fail(err)
		return
	}
	path := fmt.Sprintf("%s-%s.svg", name, f.Time.Local().Format("20060102T150405"))
	d.enter("export as .svg, .png, .csv or .json", "the name of a file", path, func(path string, settled func(error)) {
		d.exportTo(path, picture, false, settled)
	})
}

// picture returns the picture of the selected plot, or of all outcomes, and a suggested file name.
func (d *Dashboard) picture(f *scope.Frame, system *scope.System) (export.Picture, string, error) {
	if d.showing("overview") {
		return export.OfFrame(f, system, plot.Axis{}, nil), "beamscope", nil
	}
	p := d.grid.current()
	if p == nil {
		return export.Picture{}, "", errNoPlot
	}
	one := export.Plot{Series: d.grid.series(p, system, f), Hidden: p.view.hiddenRoles(), Axis: p.view.axis()}
	return export.Picture{Number: f.Number, Time: f.Time, Plots: []export.Plot{one}}, fileName(p.outcomes), nil
}

// errThere returns the error for a file that exists already.
func errThere(path string) error {
	return fmt.Errorf("%s is there already: it stays as it is", filepath.Base(path))
}

// errNoFile returns the error for a folder, a device, or a pipe.
func errNoFile(path string) error {
	return fmt.Errorf("%s is not a regular file: name another one", filepath.Base(path))
}

// fileName joins names of outcomes to a file name. Such names contain only characters that file
// names may contain.
func fileName(outcomes []string) string {
	const most = 100
	name := strings.Join(outcomes, "-")
	return name[:min(len(name), most)]
}

// exportTo writes a picture in the background, because the picture may be large and the file a
// pipe. Nothing changes the picture's data meanwhile. It asks before it replaces a file.
func (d *Dashboard) exportTo(path string, picture export.Picture, force bool, settled func(error)) {
	d.background("writing "+filepath.Base(path), func(context.Context) error {
		return export.WriteFile(path, picture, force)
	}, func(err error) {
		switch {
		case errors.Is(err, fs.ErrExist):
			settled(errThere(path))
			d.confirm(filepath.Base(path)+" is there already. Replace it?", func() { d.exportTo(path, picture, true, settled) })
		case err != nil:
			settled(err)
		default:
			settled(nil)
			d.say(good, "written: "+path)
		}
	})
}
