package program

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// fresh is a name for ours that text does not contain: the preferred one, else one of the same shape. It has six
// bytes, as the keywords import and export have, so that it can take their place without moving what stands behind.
func fresh(text, preferred string) string {
	if !strings.Contains(text, preferred) {
		return preferred
	}
	// Beginning at a hash of the text keeps a text full of such names from making this slow.
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	const names = 36 * 36 * 36 * 36 * 36
	for i := h.Sum32() % names; ; i = (i + 1) % names {
		if name := fmt.Sprintf("_%05s", strconv.FormatUint(uint64(i), 36)); !strings.Contains(text, name) {
			return name
		}
	}
}
