package program

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// fresh returns an identifier that text does not contain: the preferred one, or else one of the same shape. It has
// six bytes, like the keywords import and export, so that it can replace them without moving the text after them.
func fresh(text, preferred string) string {
	if !strings.Contains(text, preferred) {
		return preferred
	}
	// The search begins at a hash of the text, so that a text full of such names cannot make the search slow.
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	const names = 36 * 36 * 36 * 36 * 36
	for i := h.Sum32() % names; ; i = (i + 1) % names {
		if name := fmt.Sprintf("_%05s", strconv.FormatUint(uint64(i), 36)); !strings.Contains(text, name) {
			return name
		}
	}
}
