// Package id makes the names of runs, tasks and sessions.
package id

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// New makes a name with 80 random bits, which cannot be guessed and is unique.
func New(kind string) string {
	var b [10]byte
	rand.Read(b[:]) // never fails
	return kind + "_" + hex.EncodeToString(b[:])
}

// Is reports whether a name has the form of New's names of a kind.
func Is(kind, name string) bool {
	digits, ok := strings.CutPrefix(name, kind+"_")
	return ok && len(digits) == 20 && strings.Trim(digits, "0123456789abcdef") == ""
}
