// Package task holds what a request in natural language is to the harness: tasks in sessions, the steps that a task's
// loop has taken, and the events that tell others of them. A task goes on from its steps after a crash, so everything
// that was answered before is in them.
//
// # A task is a function of its steps
//
// The loop of agent decides from the task and the steps recorded so far, and so does what it sends to the model. Each step is committed
// before what depends on it happens, so a task whose process died goes on: an answered request is not sent again, and a program that had
// begun goes on under its recorded run id, from its journal.
//
// A loop over the table of tasks claims what is due and works each task in a goroutine (task/work.go). Tasks that wait for a model take no
// runner, so that memory alone bounds how many are in work (server.workers); users take turns, and one user may have in work at most twice
// as many as are free. A session's row says which of its tasks is in work and when the next is due: that is the one place that orders a
// session. Creating a task enqueues it, in the same transaction. A worker that fails because the provider or the store is away gives its
// task up until a later time; only the task's budget, a cancellation, a lasting error, or three panics in a row end it.
//
// Every claim of a task or run gives it a new fencing number, which each commit names: a process that was taken for dead writes nothing any
// more. The lease behind that is a locked file beside the database (store/sqlite/filelease.go); lease.go says what another store must
// offer.
//
// Watchers get events over a hub in the process that works the task. Those in other processes read the store, and get what is not stored
// over a bus (task.Bus): a watcher makes a locked file beside the database, and the worker appends a line for each event to it
// (store/sqlite/live.go). The line of a stored event has only its id; watchers read the event from the store. Each piece of an answer names
// the last event that was stored before it: a watcher that has a later event drops the piece.
//
// A request that gets no answer is a step, too, with what its attempts cost. If the reason passes, the worker returns a task.RetryError,
// and the task is worked again after a pause. Each step says how much time of work led to it: budgets of time add that up, so that neither
// an outage nor a restart counts. A conversation that becomes long is cut at a step that says how far; later tasks of the session begin
// with the cut of the last one, so that a provider's cache serves between two cuts.
package task
