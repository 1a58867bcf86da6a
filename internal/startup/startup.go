// Package startup keeps the start of the binary short. Packages that commands share import it; what it does at its own start, which comes
// before that of most libraries because it imports only the standard library, holds until Done.
package startup

import (
	"os"
	"regexp"
	"runtime/debug"
	"sync"
)

// startPercent lets the heap grow to 16 MB before it is collected. Libraries and the command line fill 8 MB with what stays: with the usual
// 4 MB two or three collections find nothing, and take a quarter of the start.
const startPercent = 400

var (
	usualPercent = debug.SetGCPercent(startPercent)
	done         sync.Once
)

// Done gives the garbage collector its usual setting back, that of GOGC. Safe for concurrent use.
func Done() { done.Do(func() { debug.SetGCPercent(usualPercent) }) }

// oneClientPercent lets the heap grow to three times of what stays. The heap of such a process is small: with the usual twice, collections
// take a fifth of its processor time, and a call a tenth longer.
const oneClientPercent = 200

// OneClient sets the garbage collector for a process that answers the calls of one client, one after another. GOGC goes before it.
func OneClient() {
	if os.Getenv("GOGC") == "" {
		Done()
		debug.SetGCPercent(oneClientPercent)
	}
}

// Regexp is a regular expression that is compiled when it is first used, for package variables. The function panics if it is not valid.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
