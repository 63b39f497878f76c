// Package bpf counts outcome instances inside the kernel.
//
// Its programs run at the USDT probes of Erlang VMs. They pair the start and
// the end of each span in a map keyed by outcome, OS pid and instance id, and
// count how it ended, and after how long, into the row of the window in which
// it ended. User space reads the counts of windows that are over, while the
// programs go on counting; single instances are streamed only for outcomes that
// ask for it. [Collector.Change] changes the outcomes and the windows meanwhile.
//
// With [Options.Discover], names of spans that are those of no outcome are noted, see
// [Collector.Discovered].
//
// A [Collector] holds the maps and the loaded programs. Each distinct layout of
// a site's arguments gets a program of its own, specialised when it is loaded,
// so that nothing is interpreted at a hit. [Collector.Attach] attaches them to a
// file.
//
// Needs Linux 6.6 (uprobe_multi links), and 6.10 to attach to one process of
// several that run the same file; and CAP_BPF and CAP_PERFMON, or root.
package bpf
