package export

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/host/safetext"
)

// SummaryHead returns the names of the columns of Summary.
func SummaryHead() []string {
	return []string{"time", "n", "p50", "p99", "success", "calculated p50", "p99", "apart", "QTA", "active"}
}

// Summary describes an outcome in one line.
func Summary(f *scope.Frame, p *scope.Outcome) []string {
	calculated := []string{"", "", ""}
	if !p.Calculated.Empty() {
		calculated = []string{calculatedQuantile(p, 0.5), calculatedQuantile(p, 0.99), apart(p)}
	}
	row := []string{clock(f), instances(p), quantile(p, 0.5), quantile(p, 0.99), success(p)}
	row = append(row, calculated...)
	return append(row, verdict(p.Judgement, p.Insufficient), strings.Join(p.Active, " "))
}

// Table writes rows of text in columns.
func Table(w io.Writer, rows [][]string) error {
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for _, cell := range row {
			safetext.Fprintf(tw, "%s\t", cell)
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for line := range bytes.Lines(b.Bytes()) {
		if _, err := fmt.Fprintf(w, "%s\n", bytes.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}
