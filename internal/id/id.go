// Package id makes the names of runs, tasks and sessions.
package id

import (
	"crypto/rand"
	"encoding/hex"
)

// New is a name with 80 random bits: nobody guesses another one's, and none comes twice.
func New(kind string) string {
	var b [10]byte
	rand.Read(b[:]) // never fails
	return kind + "_" + hex.EncodeToString(b[:])
}
