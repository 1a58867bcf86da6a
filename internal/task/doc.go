// Package task manages requests in natural language: tasks in sessions, the steps that a task's loop has taken, and the events that report them.
// After a crash a task continues from its steps, so the steps contain everything that was answered before.
//
// # A task is a function of its steps
//
// The loop of package agent decides from the task and the steps recorded so far. Its requests to the model follow from them too. Each step is
// committed before anything that depends on it happens, so a task whose process died can continue: an answered request is not sent again, and a
// program that had begun continues under its recorded run id, from its journal.
//
// A loop over the table of tasks claims tasks that are due and works each in a goroutine (task/work.go). Tasks that wait for a model take no runner,
// so only memory bounds the number of tasks in work (server.workers). Users take turns, and one user may have at most twice as many tasks in work as
// there are free workers. The row of a session names its task in work and the time at which the next is due; nothing else orders a session. Creating
// a task enqueues it, in the same transaction. If a worker fails because the provider or the store is unavailable, its task is released and is due
// again later. Only the task's budget, its user's quota, a cancellation, a lasting error, or three panics in a row end such a task.
//
// Every claim of a task or run gives it a new fencing number, which each commit names, so a process that was taken for dead cannot write any more.
// Whether an owner is alive follows from its lease (store/sqlstore/lease.go): a locked file beside a SQLite database, or a row in PostgreSQL.
//
// Watchers in the process that works a task get its events over a hub. Watchers in other processes get them over a bus (task.Bus). Beside a SQLite
// database, a watcher creates a locked file, and the worker appends a line to this file for each event (store/sqlstore/live.go). PostgreSQL sends
// notifications (store/sqlstore/bus.go). For a stored event, the bus carries only the id, and watchers read the event from the store. Each piece of
// an answer names the last event that was stored before the piece. If a watcher has already passed on a later event, it drops the piece.
//
// A request to the model that gets no answer is a step, too, with the cost of its attempts. If the reason may pass, the worker returns a
// task.RetryError, and the task is worked again after a pause. Each step records the working time that led to it, and time budgets add these up, so
// neither an outage nor a restart counts. When a conversation becomes long, a step (task.Compact) records which earlier parts the model sees in short
// form from there on. Later tasks of the session begin with the last cut, so that a provider's cache stays useful between two cuts.
package task
