package bpf

import "hash/crc32"

// numLabels is the number of labels over which the application beamscope spreads names.
const numLabels = 950

// Label returns the number of the user_trace probe for
// spans of this name: 1 to 950. Different names can share a label; the programs
// compare names too.
func Label(name string) uint32 {
	return 1 + crc32.ChecksumIEEE([]byte(name))%numLabels
}
