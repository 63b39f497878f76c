package figures

import "github.com/rivo/uniseg"

// MaxName is the largest number of terminal columns for a name in a table or a list.
const MaxName = 40

// ShortName returns a name in at most [MaxName] columns.
func ShortName(name string) string { return Middle(name, MaxName) }

// Called returns a name with its alias, such as checkout_2 «check-out», in about
// [MaxName] columns or less. The alias may be "".
func Called(name, alias string) string {
	const least = 20 // columns for an alias
	short := ShortName(name)
	if alias == "" {
		return short
	}
	return short + " «" + Middle(alias, max(MaxName-uniseg.StringWidth(short), least)) + "»"
}

// Middle shortens a text to a number of columns of a terminal: it keeps the beginning and the end,
// with an ellipsis between them. So names that differ only at one end stay different.
func Middle(text string, columns int) string {
	if uniseg.StringWidth(text) <= columns {
		return text
	}
	if columns < 1 {
		return ""
	}
	clusters := clustersOf(text)
	head, tail := "", ""
	room := columns - 1
	for first, last := 0, len(clusters)-1; first <= last; {
		c := clusters[first]
		atEnd := uniseg.StringWidth(tail) < uniseg.StringWidth(head)
		if atEnd {
			c = clusters[last]
		}
		if room -= uniseg.StringWidth(c); room < 0 {
			break
		}
		if atEnd {
			tail, last = c+tail, last-1
		} else {
			head, first = head+c, first+1
		}
	}
	return head + "…" + tail
}
