// Package snapshot keeps the windows around an incident. A [Keeper] holds the last
// windows in memory, encoded as for a recording; when a trigger fires it adds those
// that follow, and writes all of them to a file of their own. [List] and [Open]
// find these again.
//
// A snapshot is a recording, and replays like one. It begins with windows that are
// there for the history alone, so that the means and bounds of those that are
// shown are what they were.
package snapshot
