package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
)

const (
	notifyEvery = 20 * time.Millisecond // events within this time are sent together
	maxNotified = 7000                  // maximum bytes of events in one notification; Postgres accepts less than 8000
	listenAgain = time.Second           // pause before a broken connection is opened again
	maxOutbox   = 1 << 20               // maximum bytes of events that wait to be sent
)

// bus brings events to the followers in other processes by notifications of Postgres. A notification contains pieces of answers in full, and of
// stored events only the ids. If events are too long, or may be lost with a connection, followers get an empty event instead and read the store.
type bus struct {
	db  *sql.DB
	cfg *pgx.ConnConfig
	log *slog.Logger

	ctx    context.Context // ends with the bus
	end    context.CancelFunc
	ending sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	outbox    map[string][]liveEvent // events to send, by task
	size      int                    // approximate bytes of outbox
	sending   bool                   // true while a goroutine sends outbox
	followers map[string]map[*follower]bool
	listening bool
}

type follower struct{ pass chan []task.Event }

// notified is the content of a notification.
type notified struct {
	Task   string      `json:"task"`
	Events []liveEvent `json:"events,omitempty"`
}

func newBus(db *sql.DB, cfg *pgx.ConnConfig, log *slog.Logger) *bus {
	b := &bus{db: db, cfg: cfg, log: log, outbox: map[string][]liveEvent{}, followers: map[string]map[*follower]bool{}}
	b.ctx, b.end = context.WithCancel(context.Background())
	return b
}

// queueTopic is the name for Publish and Follow that stands for the queue. Other names are ids of tasks.
const queueTopic = "queue"

// Wake implements task.Bus.
func (b *bus) Wake() { b.Publish(queueTopic, nil) }

// Woken implements task.Bus.
func (b *bus) Woken(ctx context.Context, f func()) error {
	return b.Follow(ctx, queueTopic, func([]task.Event) { f() })
}

// Publish implements task.Bus. It does not wait for the server.
func (b *bus) Publish(id string, events []task.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	if len(events) == 0 {
		if waiting := b.outbox[id]; len(waiting) > 0 && waiting[len(waiting)-1].Type == "" && waiting[len(waiting)-1].ID == 0 {
			return // the outbox already ends with an empty event, and a second one adds nothing
		}
		events = []task.Event{{}}
	}
	for _, e := range events {
		if e.ID > 0 {
			e = task.Event{ID: e.ID}
		}
		if b.size += len(e.Data) + 100; b.size > maxOutbox {
			b.outbox[id] = []liveEvent{{}} // the empty event makes followers read the store
			continue
		}
		b.outbox[id] = append(b.outbox[id], liveEvent{e, e.After})
	}
	if !b.sending {
		b.sending = true
		b.ending.Go(b.send)
	}
}

// send sends the outbox every notifyEvery until the outbox is empty.
func (b *bus) send() {
	for {
		select {
		case <-b.ctx.Done():
		case <-time.After(notifyEvery):
		}
		b.mu.Lock()
		out := b.outbox
		b.outbox, b.size = map[string][]liveEvent{}, 0
		if len(out) == 0 {
			b.sending = false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		var all []string
		for id, events := range out {
			all = append(all, notifications(id, events)...)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), postgresConnect)
		_, err := b.db.ExecContext(ctx, "SELECT pg_notify('harness_' || current_schema(), n) FROM unnest($1::text[]) n", all)
		cancel()
		if err != nil { // followers read the store from time to time
			b.log.Warn("events could not be sent to other processes", "error", err)
		}
	}
}

// notifications returns the payloads that bring the events of a task, in order.
func notifications(id string, events []liveEvent) (all []string) {
	for len(events) > 0 {
		n, size := 0, 0
		for ; n < len(events) && (n == 0 || size < maxNotified); n++ {
			text, _ := journal.Encode(events[n]) // an error occurs again below, where it is handled
			if size += len(text); size > maxNotified && n > 0 {
				break
			}
		}
		text, err := journal.Encode(notified{id, events[:n]})
		if err != nil || len(text) > maxNotified {
			text, _ = journal.Encode(notified{Task: id})
		}
		all = append(all, string(text))
		events = events[n:]
	}
	return all
}

// Follow implements task.Bus.
func (b *bus) Follow(ctx context.Context, id string, pass func([]task.Event)) error {
	f := &follower{make(chan []task.Event, 256)}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return journal.ErrClosed
	}
	if b.followers[id] == nil {
		b.followers[id] = map[*follower]bool{}
	}
	b.followers[id][f] = true
	if !b.listening {
		b.listening = true
		b.ending.Go(b.listen)
	}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if delete(b.followers[id], f); len(b.followers[id]) == 0 {
			delete(b.followers, id)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.ctx.Done():
			return journal.ErrClosed
		case events := <-f.pass:
			pass(events)
		}
	}
}

// listen receives notifications on a connection of its own, until the bus ends.
func (b *bus) listen() {
	for b.ctx.Err() == nil {
		err := b.receive()
		if b.ctx.Err() != nil {
			return
		}
		b.log.Warn("no events of other processes arrive: their watchers read the store", "error", err)
		select {
		case <-b.ctx.Done():
		case <-time.After(listenAgain):
		}
	}
}

func (b *bus) receive() error {
	c, err := pgx.ConnectConfig(b.ctx, b.cfg)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(b.ctx)) //nolint:errcheck // nothing was written
	var channel string
	if err := c.QueryRow(b.ctx, "SELECT 'harness_' || current_schema()").Scan(&channel); err != nil {
		return err
	}
	if _, err := c.Exec(b.ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	b.deliver("", []task.Event{{}}) // makes all followers read the store, because earlier notifications may be lost
	for {
		n, err := c.WaitForNotification(b.ctx)
		if err != nil {
			return err
		}
		var got notified
		if json.NewDecoder(strings.NewReader(n.Payload)).Decode(&got) != nil {
			continue // another program uses the channel
		}
		events := make([]task.Event, 0, max(len(got.Events), 1))
		for _, e := range got.Events {
			e.Event.After = e.After
			events = append(events, e.Event)
		}
		if len(events) == 0 {
			events = append(events, task.Event{})
		}
		b.deliver(got.Task, events)
	}
}

// deliver passes events to the followers of a task, or to all followers if id is "". A follower that is too slow misses events. At the next event
// that it gets, it reads the store.
func (b *bus) deliver(id string, events []task.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for of, all := range b.followers {
		if id != "" && of != id {
			continue
		}
		for f := range all {
			select {
			case f.pass <- events:
			default:
			}
		}
	}
}

// close sends the events that are left in the outbox, and ends the bus.
func (b *bus) close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.end()
	b.ending.Wait()
	return nil
}
