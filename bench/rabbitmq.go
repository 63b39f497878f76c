//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
)

// everything is the method that observes all built-in outcomes at once.
const everything = "all of them"

func rabbitMethods() []method {
	methods := []method{{"nobody attached", attachNothing}}
	for _, b := range dtrace.Builtins() {
		methods = append(methods, method{b.Name, attachBuiltins(b)})
	}
	return append(methods, method{everything, attachBuiltins(dtrace.Builtins()...)})
}

// A delivery contains the figures of a system in a round.
type delivery struct {
	rate   float64 // messages a second
	cpu    float64 // microseconds of its VM's processor time for each message
	events float64 // for each
	seen   seen

	// Events for explanations: the number for each message, and the share that was lost.
	records, lostRecords float64
}

func deliveryRate(d delivery) float64 { return d.rate }
func deliveryCPU(d delivery) float64  { return d.cpu }

// benchRabbitMQ measures the effect of each built-in outcome on RabbitMQ's throughput, and its
// processor time. Processor time varies less, because client and server share the machine.
func benchRabbitMQ(ctx context.Context, rounds, messages int) (err error) {
	v, stop, err := startRabbitMQ(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	results := make(map[string][]delivery)
	for round := range rounds {
		for _, m := range rabbitMethods() {
			d, err := measureRabbitMQ(ctx, v, m, messages)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			results[m.name] = append(results[m.name], d)
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
	}
	return reportRabbitMQ(results, rounds, messages)
}

// startRabbitMQ starts a server, and returns its VM and a function that stops it.
func startRabbitMQ(ctx context.Context) (v vm.VM, stop func() error, err error) {
	if _, err := rabbit(ctx, "start"); err != nil {
		return vm.VM{}, nil, err
	}
	stop = func() error {
		_, err := rabbit(context.WithoutCancel(ctx), "stop")
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	text, err := rabbit(ctx, "pid")
	if err != nil {
		return vm.VM{}, nil, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return vm.VM{}, nil, err
	}
	vms, _, err := vm.Find(ctx, vm.Target{PID: pid})
	if err != nil {
		return vm.VM{}, nil, err
	}
	return vms[0], stop, nil
}

// rabbit runs scripts/rabbitmq.sh, as an instance of the benchmark's own.
func rabbit(ctx context.Context, args ...string) (string, error) {
	return rabbitWith(ctx, nil, args...)
}

// rabbitWith is rabbit with additional environment variables.
func rabbitWith(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "scripts/rabbitmq.sh", args...)
	cmd.Env = append(append(os.Environ(), "INSTANCE=99"), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("scripts/rabbitmq.sh %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

func measureRabbitMQ(ctx context.Context, v vm.VM, m method, messages int) (delivery, error) {
	before := messages / 10
	detach, err := m.attach(ctx, v, func() error {
		_, err := loadRabbitMQ(ctx, before)
		return err
	})
	if err != nil {
		return delivery{}, err
	}
	from, err := processorTime(v.PID())
	if err != nil {
		return delivery{}, err
	}
	rate, lerr := loadRabbitMQ(ctx, messages)
	to, terr := processorTime(v.PID())
	seen, derr := detach()
	d := delivery{
		rate:   rate,
		cpu:    float64((to - from).Microseconds()) / float64(messages),
		events: seen.events / float64(before+messages),
		seen:   seen,
	}
	return d, errors.Join(lerr, terr, derr)
}

var throughput = regexp.MustCompile(`throughput: (\d+)`)

// loadRabbitMQ publishes and consumes messages, and returns their number a second.
func loadRabbitMQ(ctx context.Context, messages int) (float64, error) {
	out, err := rabbit(ctx, "load", strconv.Itoa(messages))
	if err != nil {
		return 0, err
	}
	found := throughput.FindStringSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("no throughput in %q", out)
	}
	return strconv.ParseFloat(found[1], 64)
}

// rabbitSpansOf publishes and consumes messages within the server's VM for some time, in spans that
// fire the VM's probes. The rate is in messages a second; 0 means as many as possible.
// rabbitSpansOf returns the output.
func rabbitSpansOf(ctx context.Context, scenario string, d time.Duration, rate int, tokens bool) (string, error) {
	seconds := max(1, int(d.Round(time.Second).Seconds()))
	env := []string{"CARRIER=" + string(erlang.Probes), "SEQ_TRACE=0"}
	if tokens {
		env[1] = "SEQ_TRACE=1"
	}
	return rabbitWith(ctx, env, "spans", scenario, fmt.Sprintf("%ds", seconds), strconv.Itoa(rate))
}

// processorTime returns the user and system time of a process.
func processorTime(pid int) (time.Duration, error) {
	const tick = time.Second / 100 // USER_HZ, which is 100 on all supported architectures
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), ") ") // the name may contain spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: cannot read %q", pid, data)
	}
	user, uerr := strconv.ParseInt(fields[11], 10, 64)
	system, serr := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, errors.Join(uerr, serr)
}

func reportRabbitMQ(results map[string][]delivery, rounds, messages int) error {
	figure := func(name string, of func(delivery) float64) float64 { return medianOf(results[name], of) }
	fmt.Printf("RabbitMQ, publish and consume, medians of %d rounds of %d messages\n\n", rounds, messages)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "attached\tmessages/s\tshare\tµs CPU a message\tshare\tevents a message\tinstances a message\tlost\t")
	methods := rabbitMethods()
	bareRate, bareCPU := figure(methods[0].name, deliveryRate), figure(methods[0].name, deliveryCPU)
	for _, m := range methods {
		fmt.Fprintf(w, "%s\t%.0f\t%+.1f %%\t%.0f\t%+.1f %%\t%.2f\t%.2f\t%.0f\t\n", m.name,
			figure(m.name, deliveryRate), 100*(figure(m.name, deliveryRate)/bareRate-1),
			figure(m.name, deliveryCPU), 100*(figure(m.name, deliveryCPU)/bareCPU-1),
			figure(m.name, func(d delivery) float64 { return d.events }),
			figure(m.name, func(d delivery) float64 { return float64(d.seen.instances) / float64(messages+messages/10) }),
			figure(m.name, func(d delivery) float64 { return float64(d.seen.lost) }))
	}
	return w.Flush()
}
