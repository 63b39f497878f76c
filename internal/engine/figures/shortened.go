package figures

import (
	"fmt"
	"slices"

	"github.com/rivo/uniseg"
)

// Shortened shortens each name to a number of columns of a terminal, like [Middle], so that no two
// names look the same: it keeps the part in which similar names differ. If there is no room for
// that part, names end with a number, as in "check…~2". Below 8 columns there may be no room for
// either. The result for a name depends only on the set of names, not on their order.
func Shortened(names []string, columns int) []string {
	distinct := slices.Clone(names)
	slices.Sort(distinct)
	distinct = slices.Compact(distinct)
	short := make(map[string]string, len(distinct))
	for _, n := range distinct {
		short[n] = Middle(n, columns)
	}
	for _, alike := range lookAlikes(distinct, short) {
		before, after := commonEnds(alike)
		for _, n := range alike {
			if short[n] == n {
				continue // it fits as it is
			}
			short[n] = around(clustersOf(n), before, after, columns)
		}
	}
	taken := make(map[string]bool, len(distinct))
	for _, n := range distinct {
		if short[n] == n {
			taken[n] = true
		}
	}
	for _, n := range distinct {
		text := short[n]
		for i := 2; text != n && taken[text] && i <= len(distinct)+1; i++ {
			number := fmt.Sprintf("~%d", i)
			text = Middle(n, columns-len(number)) + number
		}
		short[n] = text
		taken[text] = true
	}
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = short[n]
	}
	return all
}

// lookAlikes returns the names that are shortened to the same, in their order.
func lookAlikes(names []string, short map[string]string) [][]string {
	at := make(map[string]int)
	var all [][]string
	for _, n := range names {
		i, ok := at[short[n]]
		if !ok {
			i = len(all)
			at[short[n]] = i
			all = append(all, nil)
		}
		all[i] = append(all[i], n)
	}
	return slices.DeleteFunc(all, func(alike []string) bool { return len(alike) < 2 })
}

// commonEnds returns the length in characters of the longest beginning and of the longest end
// that all names share. The sum of both is at most the length of the shortest name.
func commonEnds(names []string) (before, after int) {
	first := clustersOf(names[0])
	before, after = len(first), len(first)
	least := len(first)
	for _, n := range names[1:] {
		c := clustersOf(n)
		least = min(least, len(c))
		k := 0
		for k < min(before, len(c)) && c[k] == first[k] {
			k++
		}
		before = k
		for k = 0; k < min(after, len(c)) && c[len(c)-1-k] == first[len(first)-1-k]; {
			k++
		}
		after = k
	}
	return before, min(after, least-before)
}

// around shortens a name to a number of columns. It keeps the characters between the first
// before and the last after characters, and as many of those as fit.
func around(name []string, before, after, columns int) string {
	head, middle, tail := name[:before], joined(name[before:len(name)-after]), name[len(name)-after:]
	room := columns - uniseg.StringWidth(middle) - 2 // with the ellipses
	if room < 0 {
		return Middle(middle, columns)
	}
	// Half of the room is for the first characters of the name, the rest for its last ones.
	first := fitting(head, room/2)
	rest := room - uniseg.StringWidth(first)
	slices.Reverse(tail)
	last := fitting(tail, rest)
	slices.Reverse(tail)
	end := ""
	if n := len(clustersOf(last)); n == len(tail) {
		end = joined(tail)
	} else {
		end = "…" + joined(tail[len(tail)-n:])
	}
	if len(first) == len(joined(head)) {
		return first + middle + end
	}
	return first + "…" + middle + end
}

// fitting returns as many of the first characters as fit in the columns.
func fitting(clusters []string, columns int) string {
	text := ""
	for _, c := range clusters {
		if columns -= uniseg.StringWidth(c); columns < 0 {
			break
		}
		text += c
	}
	return text
}

func joined(clusters []string) string {
	text := ""
	for _, c := range clusters {
		text += c
	}
	return text
}

// clustersOf returns the characters of a text, each with its marks.
func clustersOf(text string) []string {
	var clusters []string
	for text != "" {
		var c string
		c, text, _, _ = uniseg.FirstGraphemeClusterInString(text, -1)
		clusters = append(clusters, c)
	}
	return clusters
}
