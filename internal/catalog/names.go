package catalog

import (
	"fmt"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// identifiers gives every name of a sorted list an identifier of its own. A name that is an identifier is its own;
// of other names that come to the same identifier each gets a number, so that the bare one, which could mean any of
// them, names none of them. Problems lists these names.
func identifiers(names []string) (ids map[string]string, problems []string) {
	groups := map[string][]string{}
	var order []string
	for _, n := range names {
		id := ident.Camel(n)
		if groups[id] == nil {
			order = append(order, id)
		}
		groups[id] = append(groups[id], n)
	}
	taken := map[string]bool{}
	for id := range groups {
		taken[id] = true
	}
	ids = make(map[string]string, len(names))
	slices.Sort(order)
	for _, id := range order {
		group := groups[id]
		if len(group) == 1 {
			ids[group[0]] = id
			continue
		}
		number := 1
		if slices.Contains(group, id) {
			ids[id] = id
			number = 2
		}
		var given []string
		for _, n := range group {
			if n != id {
				numbered := fmt.Sprintf("%s%d", id, number)
				for taken[numbered] {
					number++
					numbered = fmt.Sprintf("%s%d", id, number)
				}
				taken[numbered] = true
				number++
				ids[n] = numbered
			}
			given = append(given, fmt.Sprintf("%q is %s", n, ids[n]))
		}
		problems = append(problems, fmt.Sprintf("several names come to %s: %s", id, strings.Join(given, ", ")))
	}
	return ids, problems
}
