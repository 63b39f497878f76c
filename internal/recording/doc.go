// Package recording keeps what went into an oscilloscope, so that it can be put in
// again and gives the same frames: what was observed and how, the counts and
// instances of each window, and the notices. Snapshots are recordings too, short
// ones that say what triggered them.
//
// A recording is a sequence of blocks, each with its own check. An [Encoder] makes
// blocks, a [Writer] writes them to a file, and a [Reader] reads them back. What
// was damaged, or cut off in a crash, is told, and never taken for data; all
// before it is read. docs/recordings.md has the format, byte by byte.
package recording
