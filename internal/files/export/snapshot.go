package export

import (
	"fmt"
	"time"

	"github.com/beamscope/beamscope/internal/beam/modname"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/snapshot"
)

// WorstHead returns the names of the columns of Worst.
func WorstHead() []string {
	return []string{"how it ended", "after", "start", "id", "parent", "process"}
}

// Worst returns a line for each of the worst instances of an outcome in a window, the
// worst first.
func Worst(f *scope.Frame, p *scope.Outcome) [][]string {
	var rows [][]string
	for _, i := range p.Instances[:min(len(p.Instances), outcome.MaxWorst)] {
		how := i.Status.String()
		if i.Class != "" {
			how += " " + modname.Readable(i.Class)
		}
		start := f.Time.Add(time.Duration(i.Start - f.Window.To)).Local().Format("15:04:05.000")
		process := "-" // PID 0 would look like the process <0.0.0>
		if i.Process != 0 {
			process = i.Process.String()
		}
		rows = append(rows, []string{how, i.Elapsed().Round(time.Microsecond).String(), start,
			fmt.Sprint(i.ID), fmt.Sprint(i.Parent), process})
	}
	return rows
}

// Windows describes the number of windows of a snapshot: before the one of the trigger, that one,
// and after it.
func Windows(i snapshot.Info) string {
	windows := fmt.Sprintf("%d+1+%d", i.Before, i.After)
	if !i.Complete && i.Err == nil {
		windows += ", broken off"
	}
	return windows
}
