// Package bpf counts outcome instances inside the kernel.
//
// Its programs run at the USDT probes of Erlang VMs. They pair the start and the end of each span
// in a map whose key is the outcome, the OS pid and the instance id. They count the delay and the
// result in the row of the window in which the span ended. User space reads the counts of windows
// that have ended, while the programs continue counting. The programs stream single instances only
// for outcomes that need them. [Collector.Change] changes the outcomes and the windows meanwhile.
//
// With [Options.Discover], the programs record the names of spans that belong to no outcome, see
// [Collector.Discovered].
//
// A [Collector] holds the maps and the loaded programs. Each distinct layout of a site's arguments
// gets a program of its own, specialised at load time, so nothing is interpreted at a hit.
// [Collector.Attach] attaches the programs to a file.
//
// The package needs CAP_BPF and CAP_PERFMON, or root. It needs Linux 6.1, and 6.10 to attach to one
// process of several that run the same file. Before Linux 6.6 it needs a link for each place, see
// [MultiLinks].
package bpf
