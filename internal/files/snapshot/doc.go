// Package snapshot keeps the windows around an incident. A [Keeper] holds the last windows in
// memory, encoded as for a recording. When a trigger fires, it adds the following windows, and
// writes all of them to a file of their own. [List] and [Open] find these files again.
//
// A snapshot is a recording, and replays like one. It begins with windows that are there only for
// the history, so that the means and bounds of the shown windows are the same as in the live run.
package snapshot
