// Package sandbox starts and keeps the guest processes that execute programs. It knows frames, and nothing of tools,
// users or HTTP. Each tier is a sub-package that implements Sandbox.
//
// # The pool
//
// The pool (sandbox/pool.go) shares runners between owners: a queue and a cap for each owner, and a new runner goes to the owner with the
// fewest. Starting a runner costs as much as ten programs, so a few start at a time, and an owner keeps a runner for a turn of 16 programs
// or 250 ms before it gives it up in a full pool. Waiting is bounded for each owner and for all. Where there is room, a runner is started
// for whom none is ready; where there is none, a program waits, or fails at once with sandbox.whenFull: fail.
//
// Programs share the processors by turns (run/turns.go): no more compute at the same time than there are processors, users with few come
// first, and a program whose turn is over is frozen (SIGSTOP) while others have theirs. The system alone would give a user with a hundred
// endless programs a hundred shares of one. A user gets the last processor only if no other user's program has computed within 100 ms: the
// host needs it for the others. Runners and compilers have a lower priority than the host, which has to go on for all. What the host
// computes when users read (lists, pages of journals, declarations, searches) takes turns of its own: one thing of each user at a time, on
// half of the processors, and while programs of others compute a user rests as long as its last read took. Declarations of a server are
// kept until its tools, or what was learned of them, change. slots orders those that wait for what users share: turns, compilations,
// expensive checks, calls of a server, large bodies.
//
// Runs of tasks begin in order (run/slots.go): of the user with the fewest under way, that of the oldest task, as soon as fewer runs
// compute than there are processors. So a task under way ends before the next one slows it down, and few workers do for many tasks. A run
// that waits longer than 10 ms for a tool makes room for another; a run that computes longer than 50 ms does so too, and shares the
// processors by turns.
package sandbox
