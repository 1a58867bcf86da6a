package program

import (
	"encoding/json"
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

// isIdentifier reports whether s can stand as a property name without quotes.
func isIdentifier(s string) bool {
	return s != "" && isWordStart(s, 0) && s[0] != '#' && s[0] != '\\' && wordEnd(s, 0) == len(s)
}

// propertyName is s as a property name of an object literal or pattern.
func propertyName(s string) string {
	if isIdentifier(s) {
		return s
	}
	return quote(s)
}

// quote is s as a JavaScript string literal.
func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil { // a string always marshals
		panic(err)
	}
	return string(text)
}
