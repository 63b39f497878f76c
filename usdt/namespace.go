package usdt

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// InnerPID returns the process's PID in its own PID namespace.
func (p Process) InnerPID() (int, error) {
	data, err := os.ReadFile(p.path("status"))
	if err != nil {
		return 0, p.wrap("status", err)
	}
	inner, err := innerPID(data)
	if err != nil {
		return 0, p.wrap("status", err)
	}
	return inner, p.check()
}

// innerPID reads the last PID of the line NSpid, see proc(5).
func innerPID(status []byte) (int, error) {
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		if pids, ok := strings.CutPrefix(lines.Text(), "NSpid:"); ok {
			fields := strings.Fields(pids)
			if len(fields) == 0 {
				break
			}
			return strconv.Atoi(fields[len(fields)-1])
		}
	}
	return 0, errors.New("it has no line NSpid")
}

// ClockOffset returns the difference between the process's CLOCK_MONOTONIC and ours, in
// nanoseconds. It is positive if the process's clock is ahead. The process may be in another time
// namespace, see time_namespaces(7).
func (p Process) ClockOffset() (int64, error) {
	theirs, err := p.monotonicOffset()
	if err != nil {
		return 0, err
	}
	ours, err := Process{PID: os.Getpid(), proc: p.proc}.monotonicOffset()
	if err != nil {
		return 0, err
	}
	return theirs - ours, p.check()
}

// monotonicOffset returns how far the process's CLOCK_MONOTONIC is ahead of that of the initial
// time namespace. The kernel shows the namespace of the process's children. It is the process's own
// unless the process has made another one for them. Without time namespaces, the kernel shows none.
func (p Process) monotonicOffset() (int64, error) {
	data, err := os.ReadFile(p.path("timens_offsets"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, p.check()
	}
	if err != nil {
		return 0, p.wrap("timens_offsets", err)
	}
	offset, err := parseOffset(data)
	if err != nil {
		return 0, p.wrap("timens_offsets", err)
	}
	return offset, nil
}

// parseOffset parses the line of the clock: its name, seconds and nanoseconds.
func parseOffset(data []byte) (int64, error) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || fields[0] != "monotonic" {
			continue
		}
		seconds, err1 := strconv.ParseInt(fields[1], 10, 33)
		nanoseconds, err2 := strconv.ParseInt(fields[2], 10, 33)
		if err := errors.Join(err1, err2); err != nil {
			return 0, err
		}
		return seconds*1e9 + nanoseconds, nil
	}
	return 0, fmt.Errorf("%q has no line about the monotonic clock", data)
}
