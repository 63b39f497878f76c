package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/internal/files/atomicfile"
)

type fmtFlags struct {
	write bool
	list  bool
}

func newFmtCommand() *cobra.Command {
	var f fmtFlags
	cmd := &cobra.Command{
		Use:   "fmt [-w] [-l] file.dq…",
		Short: "Write outcome diagrams in their one form",
		Long: "fmt prints outcome diagrams in the one form they have: a definition a line, each\n" +
			"with its comments. A file called - is standard input.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd, args); err != nil {
				return err
			}
			var failed failures
			for _, name := range args {
				if err := f.format(cmd, name); err != nil {
					failed = append(failed, err)
				}
			}
			return failed.err()
		},
	}
	cmd.Flags().BoolVarP(&f.write, "write", "w", false, "rewrite the files instead of printing them")
	cmd.Flags().BoolVarP(&f.list, "list", "l", false, "print the names of the files that are not in this form, instead of the files")
	return cmd
}

func (f fmtFlags) check(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError(cmd, errors.New("no files: name some, or - for standard input"))
	}
	for _, name := range args {
		if name == stdinName && f.write {
			return usageError(cmd, errors.New("-w: standard input cannot be rewritten"))
		}
	}
	return nil
}

// format formats one file.
func (f fmtFlags) format(cmd *cobra.Command, name string) error {
	file, source, err := readDiagram(cmd.Context(), name, cmd.InOrStdin())
	if err != nil {
		return err
	}
	formatted := diagram.Format(file)
	if f.list && formatted != source {
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), shownName(name)); err != nil {
			return err
		}
	}
	if f.write && formatted != source {
		return atomicfile.Write(name, []byte(formatted))
	}
	if f.write || f.list {
		return nil
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), formatted)
	return err
}
