// Package wasm is the default tier: QuickJS-ng as WebAssembly, in a worker process. WebAssembly memory is the inner wall, and the process, which can be killed, is the outer
// one. Every program gets a fresh instance from a snapshot in which the guest runtime is already evaluated: on Linux a copy-on-write mapping of
// the sealed snapshot, elsewhere a copy.
//
// The engine is QuickJS-ng as WebAssembly on wazero. It runs in a worker process, so that killing the process ends a native loop that nothing
// can interrupt, and a stalled garbage collector stalls no other run. Workers execute the program of child processes
// (childprogram); a harness without it (go build, go install, test binaries) re-executes itself (harness __worker).
//
// The first start on a machine compiles the engine and evaluates the prelude, in a process of its own. It writes machine
// code and a *snapshot*, the linear memory after the prelude has run, into a private directory. The prelude and its libraries are compiled in a
// separate instance and loaded into the snapshot's instance as code without text, so a snapshot contains neither sources nor leftovers of a
// compiler. The engine's first garbage collection comes at 6 MiB of heap: a collection writes to every object, and a page that is written to
// becomes private. Data segments are removed from the module, so that the same machine code serves building and restoring. Workers load that
// machine code with the module's *outline*, the same declarations with empty function bodies, because decoding and validating the bodies would
// take most of a start. On Linux the snapshot is copied into a sealed memory file, which workers inherit and map copy-on-write. Between runs,
// the pages that the kernel reports as private are copied back. Elsewhere each instance gets a copy. A fresh instance takes 0.1 to 0.3 ms; it is
// made after a run has ended, so the next run does not wait for it.
//
// A worker belongs to one owner from its first program on, and is never given to another. The host enforces deadlines: it sends cancel, which
// the engine's interrupt hook sees, and kills the process 200 ms later. Memory is limited by refusing to grow it. If a program seems to have
// thrown null, a refused growth shows that it ran out of memory.
//
// A worker ends when its input ends. On Linux and Windows the system also kills it together with its host. On macOS a worker sees the end of its
// input at the next call of the interrupt hook. So if the host is killed while the worker is inside a native loop, the worker stays until that
// loop ends.
//
// On Linux, walls of the operating system (jail) surround workers and the processes that compile programs: namespaces of their own, an empty
// root directory, an unprivileged user without capabilities, Landlock, a filter of system calls (no sockets, processes, programs or new machine
// code) and limits. A process opens what it needs, calls jail.Enter, and only then reads a program. A new user namespace needs a forked process,
// which takes ten milliseconds for a server and one millisecond for a small process. So a small process, the launcher, starts workers as
// children of the harness. All this works without root. If the machine allows no namespaces, the other walls stay; harness doctor shows which
// walls are missing and why. Packages of npm are bundled without walls, since their files come from the operator. On other systems, the only
// outer wall is that workers are processes that can be killed.
//
// If memory is short, the system kills workers first; their memory is limited, too. Options.Bare, here and in the process tier, starts runners
// without walls. Only the bench sets it, to measure how much time the walls add to a start and to a run.
package wasm
