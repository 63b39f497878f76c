package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Signals in quick succession count as one, because timeout(1) sends its signal both to the
// process and to its group. The recording is complete, and the last line describes its contents.
func TestSignalTwice(t *testing.T) {
	for range 5 {
		cmd, output := startRecording(t)
		for range 3 {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
		var last string
		for output.Scan() {
			last = output.Text()
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
		complete(t, filepath.Join(cmd.Dir, "run.bsr"))
		if !regexp.MustCompile(`^recorded \d+ windows? to run.bsr$|^interrupted before the first window: nothing was observed$`).MatchString(last) {
			t.Errorf("the last line: %s", last)
		}
	}
}

// stuck is a program that continues after the first signal.
func stuck() {
	ctx, _ := untilSignal(context.Background(), os.Stderr)
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println("told")
	select {}
}

// unread is a program like stuck that prints no message. Nothing reads its standard error.
func unread() {
	nobody, full, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	defer nobody.Close()
	ctx, _ := untilSignal(context.Background(), full)
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println("told")
	_, _ = full.Write(make([]byte, 1<<20)) // more than a pipe holds
}

// A later signal ends a program that waits for a reader of its output. It also ends a program that
// a script has started in the background, where SIGINT is ignored.
func TestLaterSignalWithoutAReader(t *testing.T) {
	for name, command := range map[string]*exec.Cmd{
		"in the foreground": exec.CommandContext(t.Context(), "unread"),
		"in the background": exec.CommandContext(t.Context(), "sh", "-c", "trap '' INT; exec unread"),
	} {
		t.Run(name, func(t *testing.T) {
			stdout, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			output := bufio.NewScanner(stdout)
			for _, want := range []string{"ready", "told"} {
				if !output.Scan() || output.Text() != want {
					t.Fatalf("got %q, want %q", output.Text(), want)
				}
				if err := command.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
			}
			ended := make(chan error, 1)
			go func() { ended <- command.Wait() }()
			await(t, "its end", func() bool {
				select {
				case <-ended:
					return true
				default:
					_ = command.Process.Signal(syscall.SIGINT)
					return false
				}
			})
		})
	}
}

// A later signal ends a program that does not end by itself, with a message.
func TestLaterSignal(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "stuck")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	output := bufio.NewScanner(stdout)
	for _, want := range []string{"ready", "told"} {
		if !output.Scan() || output.Text() != want {
			t.Fatalf("got %q, want %q", output.Text(), want)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	await(t, "its end", func() bool {
		select {
		case err = <-ended:
			return true
		default:
			_ = cmd.Process.Signal(syscall.SIGTERM)
			return false
		}
	})
	if state, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || state.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", err)
	}
	if want := "beamscope: ended by a second signal before it finished: if it was writing a recording, the end is missing\n"; stderr.String() != want {
		t.Errorf("got %q, want %q", stderr.String(), want)
	}
}
