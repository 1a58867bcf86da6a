// Package process is the tier that runs Node.js in a process of its own: it has V8's speed and needs no daemon. The walls of package jail
// surround the process from its first instruction on. The root directory of the process contains Node.js, its libraries and the runner, and
// nothing else. A process executes one program. Only Linux has the walls.
//
// Node.js executes the same prelude, sends the same frames (sandbox/node/runner.cjs) and has the same walls as a worker of the wasm tier. A worker
// opens what it needs and then calls jail.Enter. Node.js cannot do that, so a small program starts first (jail.ExecMain). It makes a root directory of
// Node.js, its libraries and the runner, raises the walls, and executes Node.js in its place. The filter of system calls allows executing only that
// path, identified by the memory address of its text. The filter allows more than a worker's filter, because V8 generates machine code and Node.js
// opens its libraries. For this reason, and because it lacks the memory of WebAssembly, the tier is weaker than the wasm tier. Package tiers orders
// the tiers, and no request gets a tier that is weaker than the configured one.
//
// A program has a realm of its own, from which only text reaches the realm of the runner. The realm makes sure that programs see the clock and
// the randomness of their run. It is no wall, because V8 sometimes hands over an object of the outer realm, such as the error of a refused
// import. Therefore the outer realm compiles no text, and its prototypes are frozen. TestEscaped attacks what Node.js could do if a program
// reached it nevertheless.
//
// Node.js compiles the guest runtime again in each process. Therefore the first runner executes a small program of its own and hands V8's compiled
// functions to the host as a *code cache*, which later runners load. Containers get their cache from the first container. V8 trusts a cache, so the
// cache is made before any program runs, is kept in the tier's private directory, and has the hash of its content in its name.
//
// A process executes one program and is then killed. The pool is the same as that of the wasm tier, but a runner serves one program instead
// of 500. A run is replayed and resumed in the tier that recorded it.
package process
