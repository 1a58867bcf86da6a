// Package run executes one program: it moves frames between a runner and the gate, enforces the limits that only the host
// can enforce, and writes the journal. A run is a deterministic function of its journal, so the same loop executes a new
// program, replays a recorded one and resumes one whose process died: answers come from the journal first, and only
// calls without a recorded answer reach the gate.
//
// # A run is a deterministic function of its journal
//
// The only inputs of a program are its start record and the answers to its host calls. So the same loop executes a new program, replays a
// recorded one offline (Spec.Offline) and resumes one whose process died. Each rule below has a test of that name in package wiring.
//
//  1. Order. The guest takes one answer and runs until no microtask is left before it takes the next. Delivery numbers are
//     the only scheduling input. A replay gives the next recorded answer only to an idle guest that has made that call;
//     otherwise the replay has diverged, and the error names the call. A synchronous call (require, enumerating tools, time
//     zones, fs.readFileSync) blocks the guest and has no delivery number. A synchronous call of files is carried out after
//     the changes that the program requested before it.
//  2. Clock and randomness. Every frame to the guest carries the run's time; reading the clock adds a microsecond. Timers
//     are host calls that the run handles itself, in one queue; they fire in the order of due time, then of creation.
//     Randomness comes from generators in the prelude, seeded by the start record. The engine's own imports for time, zone
//     and entropy return constants.
//  3. Globals are an allow-list. WeakRef holds its target, FinalizationRegistry never calls its callback, the zone is UTC.
//  4. Modules. The start record holds compiled code, source map and every module that was loaded with it; a module loaded at
//     run time is the recorded answer of a call. The same holds for files beside the program of exec FILE, which a run that
//     is resumed in another process can no longer load. A replay neither compiles nor resolves modules, except exec FILE
//     --replay, which compiles the given program to find where it diverges.
//  5. Engine. The start record holds hashes of engine and prelude; a replay with other hashes needs --force.
//  6. Endings that the host decides (timeout, memory, crash, limits, cancelled) are reported by a replay, not reproduced.
//     They cancel the calls in flight. The run does not wait longer than five seconds for a call to return; a write among
//     such calls is in doubt. The recorded answer to a read of the run's input is a range of bytes with the tokens for its
//     personal data; the run makes rows of it, from a copy of the file whose hash is in the start record. A replay needs the
//     file.
//  7. Writing. Every answer is recorded before it is delivered, and committed before anyone except the program can see its
//     effects: before a write is sent, an event is shown, a person is asked, the runner is given up or the run ends,
//     and after a second at the latest. The outcome of a write is committed at once. A crash repeats only reads whose answers
//     no one has seen. A replay does not use the filter of personal data: it compares what the program sends with recorded
//     text in which a token matches any text. A write has an *intent*, a separate record that is committed before anything is
//     sent: a call without an intent was never sent. One writer goroutine commits in groups.
//  8. A write is in doubt if its outcome is unknown. The program gets an InDoubtError. Only read-only calls, and idempotent calls within five
//     minutes of their intent, are repeated. A call that provably did not arrive is not in doubt, and neither is one that an HTTP server refused
//     with a 4xx status; after 408, 499 and 5xx (except 501 and 505) a server or gateway may have carried out a part. The data of the error is
//     the HTTP response in each of these cases: {status, headers, body}. The store lists calls in doubt until a person has settled them; the
//     journal has no record of that (journal.Doubt).
//  9. Files. Calls that change files go one after another, each answer committed before the next changes anything. Append, rename and
//     the like are repeated after a crash only if their recorded precondition still holds.
//  10. The end. A program ends when its value has settled and no call and no one-shot timer is pending, as in Node; unref'd
//     timers do not delay the end. A program that returned nothing runs until its intervals are cleared, as in Node; a
//     program with a value ends, with a warning about its intervals. A program that has failed ends when no call is in flight,
//     or at once if it was refused memory: calls that had not been sent are not made.
//
// # Waiting for an approval
//
// A call that needs an approval has no answer yet: its goroutine returns (run.InFlight.Ask), and the run's loop records the question. When the
// guest is idle and every unanswered call is a timer or waits for an approval, the run suspends (run/suspend.go): the journal is committed, one
// transaction writes the request and removes the run's owner, and the runner is released as at any end. Nothing of the run stays in memory.
// The journal has no record of the suspension: it has calls without answers, like that of a process that died. The run is resumed in the same
// way, with three things that the request keeps: the remaining times of timers, and the time that the run had taken and computed.
//
// On resume the unanswered calls go live in order, through the whole gate. The gate looks up the decision about a call by the call's number in
// its run (approval.Decided). A call has one number and at most one intent, which names the request, so the intent uses up the approval, in the
// transaction that commits the intent. The gate first compares the approval with the call: the hash of the tool's definition, and a keyed hash
// of the arguments with personal data restored. Approval is the step before the intent, after validation and connection, so that no person is
// asked about a call that cannot be made, and the definition is that of the connected server.
//
// A decision is one transaction too: the request, the event in the task and the task's due time. A waiting task is due when its request is
// decided or expires. A run outside of tasks has its own due time, which runs.ResumeDecided checks. The due time stays until the run has ended or
// waits again, so that a process that dies in between changes nothing. runs.ResumeDecided looks for decisions of other processes every two
// seconds, with an indexed query.
//
// # Waiting for slow calls
//
// A run whose program waits for calls and timers longer than sandbox.parkAfter gives up its runner too (run/detach.go); run.Detach has the rule.
// Its loop continues without a runner: the goroutines of calls in flight stay, because servers work on them, timers and time limits
// keep running, and each answer is recorded, numbered and committed when it comes. The loop drops everything that the journal holds. At the first
// answer it requests a runner (Pool.Reacquire: in the queue of its owner, but never refused), reads the journal, and begins another *leg*: the
// program is replayed with the recorded answers, up to its calls in flight. The computing of a replay takes turns like any computing
// of its owner, but does not count as the program's. Answers that come meanwhile get numbers after those that the replay has not reached yet.
// So the program sees the same order, clock and answers as with one runner (TestDetachChangesNothing), and a process that dies leaves the
// same journal: recovery knows nothing of legs. A run of a task stays with its worker; a run for which a caller waits keeps the
// caller's connection.
//
// A run of a single call (tools call, a tool of a gateway in the mode direct, callMCPTool of MCP clients) executes a program that the
// harness wrote itself (runs.CallOf), so the harness knows what the program does. The run begins without a runner (run/only.go): the host
// makes the call, and the value is the output, as the server wrote it, stored with the end. For an error, or an answer that has more than a
// value, the program is replayed on a runner. The journal is the same as that of a guest and can be replayed in a guest (TestOnly): a replay treats
// numbers as equal if JavaScript does not distinguish them. This halves the time that the gateway adds to a call.
package run
