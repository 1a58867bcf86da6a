// Package process is the tier with Node.js in a process of its own: V8's speed, without a daemon. The walls of package jail are around
// the process from its first instruction on; its root has Node.js, its libraries and the runner, and nothing else. A process executes one
// program. Only Linux has the walls.
//
// Node.js executes the same prelude and sends the same frames (sandbox/node/runner.cjs); the walls are those of a worker. A worker opens
// what it needs and then calls jail.Enter. Node.js cannot do that, so a small program stands in its place at first (jail.ExecMain): it
// makes a root directory of Node.js, its libraries and the runner, raises the walls, and becomes Node.js. The filter allows executing that
// one path, by the address of its text. The filter is larger than a worker's: V8 makes machine code, and Node.js opens its libraries. So
// the tier is weaker than the wasm tier, by the memory of WebAssembly too, and says so: package tiers orders them, and a request
// gets none that is weaker than the configured one.
//
// A program has a realm of its own, from which only text reaches the realm of the runner. That keeps order: programs see the clock and the
// randomness of their run. It is no wall. V8 hands over an object of the outer realm here and there, such as the error of a refused import;
// so the outer realm compiles no text, and its prototypes are frozen. What Node.js could do if a program came to it all the same is
// attacked by TestEscaped.
//
// Node.js compiles the guest runtime anew in each process. So the first runner executes a small program of its own and hands V8's compiled
// functions to the host, as a *code cache*, which later runners load; containers get theirs from the first container. V8 trusts a cache, so
// it is made before any program runs, kept in the tier's private directory, and its name has the hash of its content.
//
// A process executes one program and is killed. The pool is the same; a runner serves one program instead of 500. A run is replayed and
// resumed in the tier that recorded it.
package process
