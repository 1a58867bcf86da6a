// Package startup shortens the start of the binary. Packages that commands share import it. It imports only the standard library, so it is
// initialized before most libraries. Its initialization changes the setting of the garbage collector, until Done is called.
package startup

import (
	"os"
	"regexp"
	"runtime/debug"
	"sync"
)

// startPercent lets the heap grow to 16 MB before it is collected. Libraries and the command line allocate 8 MB that stay in use. With the usual
// 4 MB, two or three collections free nothing and take a quarter of the start.
const startPercent = 400

var (
	usualPercent = debug.SetGCPercent(startPercent)
	done         sync.Once
)

// Done restores the usual setting of the garbage collector, that of GOGC. It is safe for concurrent use.
func Done() { done.Do(func() { debug.SetGCPercent(usualPercent) }) }

// oneClientPercent lets the heap grow to three times the memory in use. The heap of a process with one client is small. With the usual factor of two,
// collections take a fifth of the processor time of this process, and a call takes a tenth longer.
const oneClientPercent = 200

// OneClient sets the garbage collector for a process that answers the calls of one client, one after another. GOGC takes precedence.
func OneClient() {
	if os.Getenv("GOGC") == "" {
		Done()
		debug.SetGCPercent(oneClientPercent)
	}
}

// Regexp returns a function for a package variable: its first call compiles the regular expression, and all calls return the result. The function
// panics if the expression is invalid.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
