// Package recording stores the input of an oscilloscope, so that a replay gives the same frames:
// the configurations, the counts and instances of each window, and the notices. Snapshots are short
// recordings that also contain their causes.
//
// A recording is a sequence of blocks, each with its own checksum. An [Encoder] makes blocks, a
// [Writer] writes them to a file, and a [Reader] reads them. The Reader reports damaged data, and
// data that a crash cut off. It never returns it as data, and returns everything before it.
// docs/reference/recordings.md has the format, byte by byte.
package recording
