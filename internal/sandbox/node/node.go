// Package node is what the tiers with Node.js share: the runner that Node.js executes, its options, and the Node.js of this machine.
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

// Script returns the runner with the guest runtime in it, as one CommonJS module. It executes one program, by frames on its standard input
// and output, and waits for its end to be killed. The text is the same for all callers, who do not change it.
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

// Options are the options of Node.js for programs with some bytes of memory. The file of Script follows them.
func Options(memory int64) []string {
	return []string{
		fmt.Sprintf("--max-old-space-size=%d", max(memory>>20, minHeap)),
		"--disallow-code-generation-from-strings", // the outer realm, see runner.cjs
		"--v8-pool-size=0", // one thread compiles and collects
		// The guest runtime fits into the young objects: with less, V8 collects them while most programs begin.
		"--min-semi-space-size=8",
		"--no-warnings",
		"--no-deprecation",
	}
}

// minHeap is what the runner itself needs, in MiB.
const minHeap = 32

// Data is how many bytes of data a process of Node.js may have for programs with some bytes of memory: the heap, young objects, machine
// code, stacks, and as much again for buffers, which lie outside of the heap.
func Data(memory int64) uint64 { return uint64(max(memory, minHeap<<20))*2 + 128<<20 }
