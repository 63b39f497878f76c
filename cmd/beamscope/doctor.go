package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/beamscope/beamscope/internal/doctor"
	"github.com/beamscope/beamscope/internal/vm"
)

func newDoctorCommand() *cobra.Command {
	var (
		pid  int
		json bool
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what this machine and its Erlang VMs can do, and what to do about what they cannot",
		Long: "doctor checks the kernel, the privileges and the running Erlang VMs, and says what to\n" +
			"do about what does not work. It attaches for a moment to each VM with probes, or to\n" +
			"that of --pid alone: nothing is counted, and all is undone.\n" +
			"The exit status is 0 where beamscope can observe at least one VM.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("pid") && pid <= 0 {
				return usageError(cmd, fmt.Errorf("--pid %d: not a process id", pid))
			}
			report := doctor.Examine(doctor.Host(vm.Target{PID: pid}))
			write := doctor.Text
			if json {
				write = doctor.JSON
			}
			if err := write(cmd.OutOrStdout(), report); err != nil {
				return err
			}
			if !report.Works {
				return fmt.Errorf("cannot work here yet: %s", report.Do)
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&pid, "pid", 0, "look at this VM only")
	cmd.Flags().BoolVar(&json, "json", false, "print one JSON object a line for each check, and one for the result")
	return cmd
}
