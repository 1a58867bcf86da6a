// Package run executes one program: it moves frames between a runner and the gate, keeps the limits that only the host
// can keep, and writes the journal. A run is a deterministic function of its journal, so the same loop executes a new
// program, replays a recorded one and resumes one whose process died: answers come from the journal first, and only
// calls without a record reach the gate.
//
// # A run is a deterministic function of its journal
//
// A program has no input but its start record and the answers to its host calls. So the same loop executes a new program, replays a
// recorded one offline (Spec.Offline) and resumes one whose process died. Each rule has a test that bears its name in wiring.
//
//  1. Order. The guest takes one answer and runs until no microtask is left before it takes the next. Delivery numbers are
//     the only scheduling input. A replay gives the next recorded answer only to an idle guest that has made that call;
//     anything else is diverged, naming the call. A synchronous call (require, enumerating tools, time zones,
//     fs.readFileSync) blocks the guest and has no number. One of files is carried out behind the changes that were asked
//     for before it.
//  2. Clock and randomness. Every frame to the guest carries the run's time; reading the clock adds a microsecond. Timers
//     are host calls that the run keeps itself, in one queue; they fire in the order of due time, then of creation.
//     Randomness comes from generators in the prelude, seeded by the start record. The engine's own imports for time, zone
//     and entropy are constants.
//  3. Globals are an allow-list. WeakRef holds its target, FinalizationRegistry never calls, the zone is UTC.
//  4. Modules. The start record holds compiled code, source map and every module that was loaded with it; what is loaded at
//     run time is the recorded answer of a call. So are files beside the program of exec FILE, which a run that is resumed in
//     another process cannot load any more. Replay neither compiles nor resolves, except exec FILE --replay, which compiles
//     the given program to see where it diverges.
//  5. Engine. The start record holds hashes of engine and prelude; replay refuses others without --force.
//  6. Endings that the host decides (timeout, memory, crash, limits, cancelled) are reported by a replay, not reproduced.
//     They cancel the calls in flight; a call that does not return within five seconds is left behind, and a write among
//     such calls is in doubt. An answer about a run's input is a range of bytes with what was hidden of it: the run makes
//     rows of it, from a copy of the file whose hash is in the start record. A replay needs the file.
//  7. Writing. Every answer is recorded before it is delivered, and committed before anyone except the program can see its
//     effects: before a write is sent, an event is shown, a person is asked, the runner is given up and the run ends,
//     and after a second at the latest; the outcome of a write at once. A crash repeats only reads whose answers were not seen. A replay asks no filter of
//     personal data: it compares what the program sends with recorded text in which a token stands for any text. A write has
//     an *intent*, a record of its own, committed before anything is sent: a call without one never went out. One writer
//     goroutine commits in groups.
//  8. In doubt is a write whose outcome is unknown. The program gets an InDoubtError; only read-only calls, and idempotent
//     ones within five minutes of their intent, are repeated. What provably did not arrive is not in doubt, nor what an HTTP
//     server refused with a status of the client's fault; after 408, 499 and 5xx (but 501 and 505) a server or gateway may
//     have done a part. What the server said over HTTP is the error's data, {status, headers, body}, in both cases. The store lists what stays in doubt
//     until a person has settled it, which is no record of the journal (journal.Doubt).
//  9. Files. Calls that change files go one after another, each answer committed before the next changes anything. Append, rename and
//     the like are repeated after a crash only if their recorded precondition still holds.
//  10. The end. A program ends when its value has settled and no call and no one-shot timer is pending, as in Node; timers
//     that are unref'd hold nothing up. A program that returned nothing runs until its intervals are cleared, as in Node; a
//     program with a value ends, with a warning about them. A program that has failed ends when no call is in flight,
//     or at once if it was refused memory: calls that had not been sent are not made.
//
// # Waiting for an approval
//
// A call that policy puts to a person has no answer yet: its goroutine returns (run.InFlight.Ask), and the run's loop notes what it asks. When the
// guest is idle and every unanswered call is a timer or waits so, the run suspends (run/suspend.go): the journal is committed, one transaction
// writes the request and takes the run's owner away, and the runner is released as at any end. Nothing in memory is left of the run, and
// the journal has no record of that: it has calls without answers, as that of a process that died. So it is resumed, with
// three things that the request keeps: what was left of timers, and how much the run had taken and computed.
//
// On resume the unanswered calls go live in order, through the whole gate. The gate looks up what was decided about a call by its number in
// its run (approval.Decided); a call has one number, and one intent at most, which names the request: so an approval is used up by the
// intent, in the transaction that commits it. It is compared with the call first: the hash of the tool's definition, and a keyed hash of
// the arguments with personal data restored. Approval is the step before the intent, behind validation and connection, so that no person is
// asked about a call that cannot be made, and the definition is that of the connected server.
//
// A decision is one transaction as well: the request, the event in the task and the task's due time. A task that waits is due when its
// request is decided or expires. Runs of no task have a due time of their own, which runs.ResumeDecided looks at; it stays until the run
// has ended or waits again, so that a process that dies in between changes nothing. That loop also notices decisions of other processes, by
// an index, every two seconds.
//
// # Waiting for slow calls
//
// A run whose program waits for calls and timers longer than sandbox.parkAfter gives up its runner as well (run/detach.go); the rule is in
// run.Detach. Its loop continues without one: the goroutines of calls in flight stay, because servers work on them, timers and limits of time
// run on, and each answer is recorded, numbered and committed when it comes. What the journal has, the loop drops. With the first answer it
// wants a runner (Pool.Reacquire: in the queue of its owner, but never refused), reads the journal, and begins another *leg*: the program
// is replayed with the recorded answers, and meets its calls in flight where they are. What a replay computes takes turns as any computing
// of its owner, and does not count as the program's. Answers that come meanwhile are numbered behind those that the replay has not come to.
// So the program sees the same order, clock and answers as with one runner (TestDetachChangesNothing), and a process that dies leaves the
// same journal: recovery knows nothing of legs. A run of a task stays one of its worker's; a run for which a caller waits keeps the
// caller's connection.
//
// A run of a single call (tools call, a tool of a gateway in the mode direct, callMCPTool of MCP clients) executes a program that the
// harness wrote itself (runs.CallOf): what it does is known. It begins without a runner (run/only.go): the host makes the call, and the
// value is the output, as the server wrote it, stored with the end. For an error, or an answer that has something beside its value, the
// program is replayed on a runner. So the journal is the one that a guest leaves, and replays in one (TestOnly): a replay takes numbers for
// equal that JavaScript does not tell apart. That halves what the gateway adds to a call.
package run
