package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// identifiers gives every name of a sorted list a unique identifier. A name that is a valid identifier stays as it is. Any other name gets the
// identifier that it is turned into, with a number if several names are turned into the same one: without the number, the identifier could mean any
// of them. problems has a text for each such identifier.
func identifiers(names []string) (ids map[string]string, problems []string) {
	groups := map[string][]string{} // names by identifier
	for _, n := range names {
		id := ident.Camel(n)
		groups[id] = append(groups[id], n)
	}
	ids = make(map[string]string, len(names))
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		group := groups[id]
		number := 0
		if slices.Contains(group, id) {
			number = 1
		}
		var given []string
		for _, n := range group {
			ids[n] = id
			for len(group) > 1 && n != id && groups[ids[n]] != nil {
				number++
				ids[n] = fmt.Sprintf("%s%d", id, number)
			}
			if ids[n] != id {
				groups[ids[n]] = []string{n}
			}
			given = append(given, fmt.Sprintf("%q is %s", n, ids[n]))
		}
		if len(group) > 1 {
			problems = append(problems, fmt.Sprintf("several names come to %s: %s", id, strings.Join(given, ", ")))
		}
	}
	return ids, problems
}
