package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-code-exec-harness/internal/store/sqlstore"
	"mcp-code-exec-harness/internal/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is the maximum time that tests wait; only a failure reaches it.
const patience = 2 * time.Minute

var errHandedOver = errors.New("handed over")

// place is a store that processes share.
type place struct {
	t       *testing.T
	url     string
	network bool // tells whether webhooks are delivered over the network
}

func newPlace(t *testing.T) *place {
	t.Helper()
	return &place{t: t, url: "sqlite:" + filepath.Join(t.TempDir(), "harness.db")}
}

// process is a service with its own connection to the store. Services on the same place are different processes to each other.
type process struct {
	*task.Service
	t     *testing.T
	store *sqlstore.Store

	mu        sync.Mutex
	receiver  func(*http.Request) int // receiver of webhooks; it returns the status of its response, or 0 for no response
	ended     []task.Task             // tasks for which OnEnd was called
	forgotten []string                // sessions whose files were removed
}

// open starts a process with the worker work. change, if not nil, changes its options.
func (p *place) open(work task.Worker, change func(*task.Options)) *process {
	p.t.Helper()
	keep, err := sqlstore.Open(p.t.Context(), p.url, sqlstore.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	s := &process{t: p.t, store: keep}
	opt := task.Options{
		Store: keep, Bus: keep, Worker: work, HandOver: errHandedOver, SessionExpiry: 24 * time.Hour, Workers: 8,
		Webhooks: task.Webhooks{AllowPrivate: true, MaxAttempts: 3, Secret: []byte("secret"), Version: "test"},
		Now:      time.Now, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Forget: func(_ context.Context, user, session string) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.forgotten = append(s.forgotten, user+"/"+session)
			return nil
		},
		OnEnd: func(t task.Task) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ended = append(s.ended, t)
		},
	}
	if change != nil {
		change(&opt)
	}
	s.Service = task.NewService(opt)
	if !p.network {
		s.SetTransport(s)
	}
	p.t.Cleanup(s.close)
	return s
}

// RoundTrip delivers webhooks to the receiver.
func (s *process) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	receiver := s.receiver
	s.mu.Unlock()
	if receiver == nil {
		return nil, errors.New("connection refused")
	}
	status := receiver(r)
	if status == 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)), Body: http.NoBody, Request: r, Header: http.Header{},
	}, nil
}

// close ends the process.
func (s *process) close() {
	if err := s.store.Close(); err != nil {
		s.t.Error(err)
	}
}

// work works the queue in the background. stop ends that and waits.
func (s *process) work() (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Work(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				s.t.Error(err)
			}
		})
	}
	s.t.Cleanup(stop)
	return stop
}

func (s *process) submit(r task.Request) task.Task {
	s.t.Helper()
	if r.UserID == "" {
		r.UserID = "ann"
	}
	if r.Task == "" {
		r.Task = "Do it."
	}
	t, created, err := s.Submit(s.t.Context(), r)
	if err != nil || !created {
		s.t.Fatalf("submit: created %t, %v", created, err)
	}
	return t
}

// wait waits until a task has ended, and returns it.
func (s *process) wait(id string) task.Task {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	t, err := s.Wait(ctx, id)
	if err != nil {
		s.t.Fatalf("wait for %s: %v", id, err)
	}
	return t
}

func (s *process) task(id string) task.Task {
	s.t.Helper()
	t, err := s.Task(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return t
}

func (s *process) tasksEnded() []task.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]task.Task(nil), s.ended...)
}

func (s *process) sessionsForgotten() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.forgotten...)
}

// succeed is a worker that answers at once.
func succeed(_ context.Context, t task.Task, _ []task.Past, _ []task.Step, _ task.Log) (task.Task, error) {
	t.Status, t.Text, t.Message = task.Succeeded, "Done: "+t.Task, "Answered."
	return t, nil
}

// stopped returns the result of a worker whose context has ended.
func stopped(ctx context.Context, t task.Task) (task.Task, error) {
	if cause := context.Cause(ctx); !errors.Is(cause, task.ErrCancelled) {
		return t, cause
	}
	t.Status, t.Message, t.Error = task.Cancelled, "Cancelled.", &task.Error{Kind: task.KindCancelled, Message: "cancelled"}
	return t, nil
}

// gated is a worker that reports each task that begins, and waits until the test releases it.
type gated struct {
	began chan task.Task
	let   chan struct{}
}

func newGated() *gated { return &gated{make(chan task.Task, 100), make(chan struct{})} }

func (g *gated) work(ctx context.Context, t task.Task, h []task.Past, steps []task.Step, log task.Log) (task.Task, error) {
	g.began <- t
	select {
	case <-g.let:
		return succeed(ctx, t, h, steps, log)
	case <-ctx.Done():
		return stopped(ctx, t)
	}
}

// next waits for the next task that begins, and returns it.
func (g *gated) next(t *testing.T) task.Task {
	t.Helper()
	select {
	case got := <-g.began:
		return got
	case <-time.After(patience):
		t.Fatal("no task begins")
		return task.Task{}
	}
}

// none checks that no task has begun that next has not returned.
func (g *gated) none(t *testing.T) {
	t.Helper()
	select {
	case got := <-g.began:
		t.Errorf("%s %q has begun", got.ID, got.Task)
	default:
	}
}

func kinds(events []task.Event) []string {
	var all []string
	for _, e := range events {
		all = append(all, e.Type)
	}
	return all
}

func data(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
