package figures

import "github.com/rivo/uniseg"

// MaxName is how many columns of a terminal a name takes where many are shown: in a
// table, or in a list.
const MaxName = 40

// ShortName returns a name in at most [MaxName] columns.
func ShortName(name string) string { return Middle(name, MaxName) }

// Called returns a name with its alias, such as checkout_2 «check-out», in about
// [MaxName] columns or less. The alias may be "".
func Called(name, alias string) string {
	const least = 20 // of an alias
	short := ShortName(name)
	if alias == "" {
		return short
	}
	return short + " «" + Middle(alias, max(MaxName-uniseg.StringWidth(short), least)) + "»"
}

// Middle returns a text in at most so many columns of a terminal: of one that is longer,
// the beginning and the end, with an ellipsis between them. Names that differ only at one
// end can then still be told apart.
func Middle(text string, columns int) string {
	if uniseg.StringWidth(text) <= columns {
		return text
	}
	if columns < 1 {
		return ""
	}
	var clusters []string
	for rest := text; rest != ""; {
		var c string
		c, rest, _, _ = uniseg.FirstGraphemeClusterInString(rest, -1)
		clusters = append(clusters, c)
	}
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
