// Package sandbox starts and keeps the guest processes that execute programs. It handles frames, and knows nothing of tools, users or HTTP. Each tier
// is a sub-package that implements Sandbox.
//
// # The pool
//
// The pool (sandbox/pool.go) shares runners between owners. Each owner has a queue and a maximum number of runners, and a new runner goes to the
// owner with the fewest. Starting a runner costs as much as ten programs, so only a few start at a time. In a full pool, an owner keeps a runner for
// a turn of 16 programs or 250 ms before it gives the runner up. The number of waiting programs is limited for each owner and for all owners
// together. If no runner is ready and the pool has room, a runner is started. If it has no room, a program waits, or fails at once with
// sandbox.whenFull: fail.
//
// Programs share the processors by turns (run/turns.go). No more programs compute at the same time than there are processors, and users with few
// computing programs come first. A program whose turn is over is frozen (SIGSTOP) while others have theirs. The operating system alone would give a
// user with a hundred endless programs a hundred times the share of a user with one. A user gets the last processor only if no other user's program
// has computed within 100 ms, because the host needs it for the other users. Runners and compilers have a lower priority than the host, which serves
// all users. What the host computes when users read (lists, pages of journals, declarations, searches) takes separate turns: one at a time for each
// user, on half of the processors. While programs of others compute, a user pauses after a read for as long as the read took. Declarations of a
// server are cached until its tools, or what was learned of them, change. Package slots orders the users that wait for shared resources: turns,
// compilations, expensive checks, calls of a server, large bodies.
//
// Runs of tasks begin in order (run/slots.go). When fewer runs compute than there are processors, the next run is chosen from the user with the
// fewest runs under way; of that user's runs, the one of the oldest task begins. So a task under way ends before the next one slows it down, and a
// few workers are enough for many tasks. A run that waits longer than 10 ms for a tool makes room for another. A run that computes longer than 50 ms
// does so too, and then shares the processors by turns.
package sandbox
