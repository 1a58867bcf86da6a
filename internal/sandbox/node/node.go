// Package node has what the tiers with Node.js share: the runner that Node.js executes, its options, and the Node.js of this machine.
package node

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"mcp-code-exec-harness/internal/guest"
)

//go:embed runner.cjs
var runner []byte

// Script returns the runner with the guest runtime in it, as one CommonJS module. The module executes one program, by frames on its standard
// input and output, and then waits to be killed. All callers get the same bytes and must not change them.
var Script = sync.OnceValues(func() ([]byte, error) {
	prelude, err := guest.Bundle()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(string(prelude))
	if err != nil {
		return nil, err
	}
	libraries, err := json.Marshal(string(guest.Libraries()))
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "const PRELUDE = %s;\nconst LIBRARIES = %s;\n%s", text, libraries, runner), nil
})

// Options returns the options of Node.js for programs with a memory limit in bytes. On the command line, the file of Script follows them.
func Options(memory int64) []string {
	return []string{
		fmt.Sprintf("--max-old-space-size=%d", max(memory>>20, minHeap)),
		"--disallow-code-generation-from-strings", // applies to the outer realm; see runner.cjs
		"--v8-pool-size=0", // V8 compiles and collects garbage in a single thread
		// The guest runtime fits into the young generation. With a smaller one, V8 would collect garbage at the start of most programs.
		"--min-semi-space-size=8",
		"--no-warnings",
		"--no-deprecation",
	}
}

// minHeap is the heap that the runner itself needs, in MiB.
const minHeap = 32

// Data returns the maximum bytes of data of a Node.js process for programs with a memory limit in bytes: the heap, young objects, machine code
// and stacks, and as much again for buffers, which are outside of the heap.
func Data(memory int64) uint64 { return uint64(max(memory, minHeap<<20))*2 + 128<<20 }
