package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/internal/files/atomicfile"
)

func newDrawCommand() *cobra.Command {
	var svg string
	cmd := &cobra.Command{
		Use:   "draw file.dq",
		Short: "Draw an outcome diagram",
		Long:  "draw draws an outcome diagram in the terminal, and as an image. A file called - is\nstandard input.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneDiagram(cmd, args); err != nil {
				return err
			}
			file, _, err := readDiagram(cmd.Context(), args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("svg") {
				if err := atomicfile.Write(svg, []byte(diagram.SVG(file))); err != nil {
					return err
				}
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), diagram.ASCII(file))
			return err
		},
	}
	cmd.Flags().StringVar(&svg, "svg", "", "also write the drawing to this file, as SVG")
	return cmd
}

// oneDiagram rejects everything except the name of one file.
func oneDiagram(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usageError(cmd, errors.New("no diagram: name a file, or - for standard input"))
	case len(args) > 1:
		return usageError(cmd, fmt.Errorf("unexpected argument %q", args[1]))
	}
	if f := cmd.Flags().Lookup("svg"); f != nil && f.Changed && f.Value.String() == "" {
		return usageError(cmd, errors.New("--svg: no file given"))
	}
	return nil
}
