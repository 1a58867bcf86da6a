// Package id generates the ids of runs, tasks and sessions.
package id

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// New returns an id with 80 random bits, which is unique and cannot be guessed.
func New(kind string) string {
	var b [10]byte
	rand.Read(b[:]) // never fails
	return kind + "_" + hex.EncodeToString(b[:])
}

// Is reports whether a name has the form of an id that New returns for a kind.
func Is(kind, name string) bool {
	digits, ok := strings.CutPrefix(name, kind+"_")
	return ok && len(digits) == 20 && strings.Trim(digits, "0123456789abcdef") == ""
}
