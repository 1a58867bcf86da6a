// Package storetest is the test suite for stores. It tests everything that the consumers of a store use.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/answers"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

// Store is the store of one process, as its consumers see it. A closed store counts as a dead process; closing it again does nothing.
type Store interface {
	runs.Store
	task.Store
	auth.KeyStore
	skills.History
	answers.Store
	Close() error
}

// Place opens stores at one location, which is empty at first. Each store acts as a different process. Place also arranges for the stores to be
// closed.
type Place func(t *testing.T) Store

// Options describe what a store guarantees.
type Options struct {
	Workers bool // true if any number of processes may work the queue
}

// Exercise runs this suite and that of journaltest, each test with its own Place.
func Exercise(t *testing.T, o Options, newPlace func(t *testing.T) Place) {
	queue := queueLock
	if o.Workers {
		queue = queueWorkers
	}
	t.Run("journal", func(t *testing.T) {
		t.Parallel()
		journaltest.Exercise(t, func(t *testing.T) journal.Store {
			open := newPlace(t)
			return reopener{open(t), open}
		})
	})
	for name, test := range map[string]func(*testing.T, Place){
		"round trip":                roundTrip,
		"defaults":                  defaults,
		"create":                    create,
		"idempotency":               idempotency,
		"idempotency at once":       idempotencyAtOnce,
		"commit":                    commit,
		"commit refused":            commitRefused,
		"steps":                     steps,
		"events":                    events,
		"events at once":            eventsAtOnce,
		"event keys":                eventKeys,
		"claim":                     claim,
		"claim at once":             claimAtOnce,
		"take over":                 takeOver,
		"one of a session":          oneOfSession,
		"one of a session at once":  oneOfSessionAtOnce,
		"cancel waiting":            cancelWaiting,
		"cancel running":            cancelRunning,
		"fence":                     fenced,
		"turns":                     turns,
		"order of a session":        orderOfSession,
		"release":                   release,
		"recover":                   recovers,
		"reserved":                  reserved,
		"list":                      list,
		"pages":                     pages,
		"search":                    search,
		"history":                   history,
		"cached":                    cached,
		"sessions":                  sessions,
		"sessions of users":         sessionsOfUsers,
		"session expiry":            sessionExpiry,
		"delete session":            deleteSession,
		"delete session refused":    deleteSessionRefused,
		"enter session":             enterSession,
		"close session":             closeSession,
		"webhooks":                  webhooks,
		"webhooks of users":         webhooksOfUsers,
		"webhooks of later users":   webhooksAfter,
		"schedules":                 schedules,
		"fire":                      fire,
		"fire at once":              fireAtOnce,
		"fire given up":             fireGivenUp,
		"due schedules":             dueSchedules,
		"due schedules of users":    dueSchedulesOfUsers,
		"expired sessions of users": expiredSessionsOfUsers,
		"due runs of users":         dueRunsOfUsers,
		"queue lock":                queue,
		"run summary":               runSummary,
		"list runs":                 listRuns,
		"match run":                 matchRun,
		"read page":                 readPage,
		"owners of runs":            ownersOfRuns,
		"adopt once":                adoptOnce,
		"strays":                    strays,
		"keys":                      keys,
		"kept answers":              keptAnswers,
		"kept answers of users":     keptAnswersOfUsers,
		"touch key":                 touchKey,
		"contexts":                  contexts,
		"approvals":                 approvals,
		"lists of approvals":        approvalLists,
		"webhooks of approvals":     approvalWebhooks,
		"waiting tasks":             waitingTasks,
		"decide at once":            decideAtOnce,
		"doubts":                    doubts,
		"doubts of dead processes":  doubtsOfDead,
		"lists of doubts":           doubtLists,
		"settle at once":            settleAtOnce,
		"skill versions":            skillVersions,
		"skill versions at once":    skillVersionsAtOnce,
		"bounds of skills":          skillBounds,
		"statuses of skills":        skillStatuses,
		"uses of skills":            skillUses,
		"shares of skills":          skillShares,
		"proposals of skills":       skillProposals,
		"bounds of shares":          skillShareBounds,
		"closed":                    closed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newPlace(t))
		})
	}
}

// reopener closes and reopens a store for journaltest.
type reopener struct {
	Store
	open Place
}

// Reopen implements journaltest.Reopener.
func (r reopener) Reopen(t *testing.T) journal.Store {
	t.Helper()
	must(t, "close", r.Close())
	return reopener{r.open(t), r.open}
}

var begin = time.Date(2031, 2, 3, 4, 5, 6, 789_123_000, time.UTC)

// at returns the time that is the given number of seconds after begin.
func at(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }

func pointer[T any](v T) *T { return &v }

// New returns a minimal task in a user's session.
func New(id, user, session string) task.New {
	return task.New{
		Task: task.Task{
			ID: id, UserID: user, SessionID: session, Task: "do " + id, Status: task.Queued, CreatedAt: begin,
			Logs: []string{}, Runs: []string{},
		},
		Events:  []task.Event{{Type: task.EventQueued, Time: begin, Data: json.RawMessage(`{"id":"` + id + `"}`)}},
		Session: task.Session{ID: session, UserID: user, CreatedAt: begin, UsedAt: begin, ExpiresAt: at(3600)},
	}
}

// full returns a task with every field set, so that the tests detect a field that a store omits.
func full() task.New {
	n := New("task_full", "ann", "sess_full")
	n.Task.Context = json.RawMessage(`{"z":1.0,"a":"<é\u0041>"}`)
	n.Task.Model, n.Task.Principal, n.Task.CallbackURL = "m-1", "key_1", "https://example.com/hook?a=b&c=d"
	n.Task.Reveal, n.Task.Roles = true, []auth.Role{auth.User, auth.Approver}
	n.Task.Schedule, n.Task.CacheKey = "sched_1", "cache-key"
	n.Task.Budget = task.Budget{Turns: 1, Runs: 2, Tokens: 3, Cost: 0.25, Wall: task.Duration(90 * time.Second)}
	n.Task.RunAt = pointer(at(5))
	return n
}

// end returns a change that ends a task and sets every field that a change can replace.
func end(t task.Task) task.Change {
	t.Status, t.Message, t.Text = task.Succeeded, "It is done.", "The answer\u2028is <42>."
	t.Output = json.RawMessage(`{"b":[1.50,null],"a":"<&>"}`)
	t.Error = &task.Error{Kind: task.KindRun, Message: "no"}
	t.Logs, t.Runs = []string{"one", "<two>"}, []string{"run_1", "run_2"}
	t.Usage = task.Usage{
		Model: "m-2", Turns: 3, Runs: 2, Calls: 4, CostUSD: pointer(0.125),
		Tokens: model.Usage{Input: 10, CachedInput: 5, CacheWrite: 4, Output: 3, Reasoning: 2},
		Direct: &task.Direct{Definitions: 1, Intermediate: 2, Context: 3, Input: 4, Output: 5, Estimated: true},
	}
	t.StartedAt, t.EndedAt = pointer(at(10)), pointer(at(20))
	return task.Change{Task: &t, Events: []task.Event{{Type: task.EventEnded, Time: at(20), Data: json.RawMessage(`{"ok":true}`)}}}
}

// ended returns a minimal change that ends a task.
func ended(t task.Task, status task.Status, when time.Time) task.Change {
	t.Status, t.EndedAt = status, &when
	return task.Change{Task: &t, Events: []task.Event{{Type: task.EventEnded, Time: when, Data: json.RawMessage(`{}`)}}}
}

func hook(id string, seconds int) *task.Webhook {
	return &task.Webhook{ID: id, UserID: "ann", URL: "https://example.com/" + id, Due: at(seconds)}
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func mustCreate(t *testing.T, s task.Store, n task.New) task.Task {
	t.Helper()
	got, created, err := s.CreateTask(t.Context(), n)
	must(t, "create "+n.Task.ID, err)
	if !created {
		t.Errorf("%s: not created", n.Task.ID)
	}
	return got
}

func mustClaim(t *testing.T, s task.Store, id string) task.Task {
	t.Helper()
	got, err := s.Claim(t.Context(), id, begin)
	must(t, "claim "+id, err)
	return got
}

func mustCommit(t *testing.T, s task.Store, id string, c task.Change) []task.Event {
	t.Helper()
	events, err := s.Commit(t.Context(), id, fence(t, s, id), c)
	must(t, "commit to "+id, err)
	return events
}

// fence returns the fence of a task's last claim, or 0 if no such task exists.
func fence(t *testing.T, s task.Store, id string) int64 {
	t.Helper()
	got, err := s.Task(context.WithoutCancel(t.Context()), id)
	if err != nil && !errors.Is(err, task.ErrNotFound) {
		t.Fatalf("read %s: %v", id, err)
	}
	return got.Fence
}

func mustTask(t *testing.T, s task.Store, id string) task.Task {
	t.Helper()
	got, err := s.Task(t.Context(), id)
	must(t, "read "+id, err)
	return got
}

// finish claims a task and ends it.
func finish(t *testing.T, s task.Store, id string, when time.Time) {
	t.Helper()
	mustCommit(t, s, id, ended(mustClaim(t, s, id), task.Succeeded, when))
}

func wantIs(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

func wantEqual(t *testing.T, what string, want, got any) {
	t.Helper()
	asText := cmp.Transformer("text", func(r json.RawMessage) string { return string(r) })
	if d := cmp.Diff(want, got, asText); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func wantNone(t *testing.T, what string, n int, err error) {
	t.Helper()
	if err != nil || n != 0 {
		t.Errorf("%s: %d, %v, want none", what, n, err)
	}
}

// ids joins the IDs of tasks.
func ids(tasks []task.Task) string {
	var out []string
	for _, t := range tasks {
		out = append(out, t.ID)
	}
	return strings.Join(out, " ")
}

func wantIDs(t *testing.T, what, want string, tasks []task.Task, err error) {
	t.Helper()
	if got := ids(tasks); err != nil || got != want {
		t.Errorf("%s: %q, %v, want %q", what, got, err, want)
	}
}
