//go:build !windows

package cli

import "os"

// obeysSequences reports whether a terminal understands escape sequences.
func obeysSequences(*os.File) bool { return true }
