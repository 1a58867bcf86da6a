// Package wasm is the default tier: QuickJS-ng as WebAssembly, in a worker process. The process is the worker program
// where it is embedded (build tag embedworker), else this same binary re-executed. WebAssembly memory is the inner wall,
// the killable process the outer one. Every program gets a fresh instance: on Linux a copy-on-write mapping of a sealed
// snapshot in which the guest runtime is already evaluated, elsewhere a copy of it.
//
// The engine is QuickJS-ng as WebAssembly on wazero, in a worker process, so that a native loop that nothing can interrupt is ended by
// ending a process, and a stalled garbage collector stalls no other run. The worker is a program of its own (cmd/harness-worker) with
// engine and frames and nothing else; make build embeds it, and a harness without it (go build, go install, test binaries) re-executes
// itself (harness __worker).
//
// The first start on a machine compiles the engine and evaluates the prelude, in a process of its own, into a private directory: the worker
// program, machine code and a *snapshot*, the linear memory after the prelude has run. The prelude and its libraries are compiled in an
// instance of their own and loaded into that of the snapshot as code without its text: so a snapshot holds neither sources nor what a
// compiler leaves. The engine's first collection comes at 6 MiB of heap, since a collection writes to every object, and a page that is
// written to is private. Data segments are taken out of the module, so that the same machine code serves building and restoring. Workers
// load that machine code with the module's *outline*, the same declarations with empty function bodies, because decoding and validating the
// bodies would take most of a start. On Linux the snapshot is copied into a sealed memory file that workers inherit and map copy-on-write,
// and between runs the pages that the kernel calls private are copied back; elsewhere each instance gets a copy. A fresh instance costs 0.1
// to 0.3 ms; it is made after the last run's reset, off the path of the next.
//
// A worker belongs to one owner from its first program on, and is never given to another. Deadlines are the host's: it sends cancel, which
// the engine's interrupt hook sees, and kills the process 200 ms later. Memory is capped by refusing to grow; that a growth was refused is
// how running out of memory is told from a thrown null.
//
// A worker ends when its input does. On Linux and Windows the system ends it with its host as well; on macOS it sees the end of its input
// at the next turn of the interrupt hook, so a worker that is inside a native loop while its host is killed stays until that loop ends.
//
// On Linux, workers and the processes that compile programs are behind walls of the operating system (jail): namespaces of their own, an
// empty root directory, an unprivileged user without capabilities, Landlock, a filter of system calls (no sockets, processes, programs or
// new machine code) and limits. A process opens what it needs, calls jail.Enter, and only then reads a program. A new user namespace needs
// a copied process, which takes ten milliseconds for a server and one for a small process; so a small one, the launcher, starts them, as
// children of the harness. All this works without root. Where the machine gives no namespaces, the other walls stay; harness doctor says
// which walls are missing and why. Packages of npm are bundled without walls: their files are the operator's. On other systems workers are
// processes that can be killed, and no more.
//
// A worker is also the first process to go when memory is short, and its own memory is bounded. wasm.Options.Bare and that of the process
// tier start runners without walls; only the bench sets them, to measure by turns what the walls add to a start and to a run.
package wasm
