package queue

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

var _ Queue = (*Local)(nil)

// maxTimer is the longest wait without a look at the clock. A timer stands still while the machine sleeps and knows
// nothing of a clock that is set.
const maxTimer = time.Minute

// Local is a queue in memory, for one process. Keys take turns: a key with many jobs does not delay those with few. It
// holds as many jobs as are pushed, an ID and a key each.
type Local struct {
	// Log is told of panics in handlers. It is set before the first Work; nil tells nobody.
	Log *slog.Logger

	now func() time.Time

	mu      sync.Mutex
	work    *sync.Cond // there is a ready line, or a context of Work has ended
	jobs    map[string]*job
	lines   map[string]*line
	ready   fifo[*line]
	delayed delayed
	timer   *time.Timer // for the first of delayed
	working int
	pushes  uint64
}

// job is in exactly one place: delayed, in its line, or being worked.
type job struct {
	id     string
	line   *line
	at     time.Time // while it is delayed
	seq    uint64    // of its push: the order of those due at the same time
	index  int       // in delayed, -1 if it is not there
	paused bool      // delayed by its handler: its line waits for it
	cancel context.CancelCauseFunc
}

// line is the due jobs of one key. Its first job may be worked when none of the line is being worked or paused.
type line struct {
	key   string
	jobs  fifo[*job]
	busy  *job // being worked or paused
	queue bool // it is in ready
	refs  int  // its jobs, wherever they are
}

// NewLocal returns an empty queue; now is the clock that says when jobs are due.
func NewLocal(now func() time.Time) *Local {
	q := &Local{now: now, jobs: make(map[string]*job), lines: make(map[string]*line)}
	q.work = sync.NewCond(&q.mu)
	return q
}

// Push implements Queue.
func (q *Local) Push(ctx context.Context, j Job) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("queue job %s: %w", j.ID, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.jobs[j.ID] != nil {
		return nil
	}
	l := q.lines[j.Key]
	if l == nil || j.Key == "" {
		l = &line{key: j.Key}
		if j.Key != "" {
			q.lines[j.Key] = l
		}
	}
	l.refs++
	q.pushes++
	added := &job{id: j.ID, line: l, seq: q.pushes, index: -1}
	q.jobs[j.ID] = added
	if j.At.After(q.now()) {
		q.delay(added, j.At)
	} else {
		l.jobs.push(added)
		q.offer(l)
	}
	return nil
}

// Len implements Queue.
func (q *Local) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs) - q.working
}

// Cancel implements Queue.
func (q *Local) Cancel(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	j := q.jobs[id]
	switch {
	case j == nil:
		return false
	case j.cancel != nil:
		j.cancel(ErrCancelled)
		return true
	case j.index >= 0:
		heap.Remove(&q.delayed, j.index)
		q.arm()
	default:
		j.line.jobs.remove(j)
	}
	q.settle(j)
	return true
}

// Work implements Queue. It may be called more than once at a time.
func (q *Local) Work(ctx context.Context, workers int, handle func(ctx context.Context, id string) error) error {
	if workers < 1 {
		return fmt.Errorf("work the queue with %d workers: at least 1 is needed", workers)
	}
	defer context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.work.Broadcast()
	})()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				j, jctx := q.take(ctx)
				if j == nil {
					return
				}
				q.done(j, q.call(jctx, j, handle))
			}
		})
	}
	wg.Wait()
	return nil
}

// take waits for the next job; nil when ctx has ended.
func (q *Local) take(ctx context.Context) (*job, context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ctx.Err() == nil {
		l, ok := q.ready.pop()
		if !ok {
			q.work.Wait()
			continue
		}
		l.queue = false
		j, ok := l.jobs.pop()
		if !ok { // its last job was cancelled
			continue
		}
		l.busy = j
		q.working++
		var jctx context.Context
		jctx, j.cancel = context.WithCancelCause(ctx)
		return j, jctx
	}
	q.work.Signal() // this worker may have been woken for a job that another Work can take
	return nil, nil
}

// call calls the handler; a panic is its error.
func (q *Local) call(ctx context.Context, j *job, handle func(context.Context, string) error) (err error) {
	defer j.cancel(nil)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("job %s: panic: %v", j.id, p)
			if q.Log != nil {
				q.Log.Error("a queued job panicked", "job", j.id, "panic", p, "stack", string(debug.Stack()))
			}
		}
	}()
	return handle(ctx, j.id)
}

// done takes a job back from its handler.
func (q *Local) done(j *job, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.working--
	j.cancel = nil
	var retry *RetryError
	if errors.As(err, &retry) {
		j.paused = true
		q.delay(j, q.now().Add(retry.After))
		return
	}
	q.settle(j)
}

// settle forgets a job that is in no place any more.
func (q *Local) settle(j *job) {
	delete(q.jobs, j.id)
	l := j.line
	if l.busy == j {
		l.busy = nil
	}
	if l.refs--; l.refs == 0 {
		if l.key != "" {
			delete(q.lines, l.key)
		}
		return
	}
	q.offer(l)
}

// offer lets the workers have a line, behind those that are offered already.
func (q *Local) offer(l *line) {
	if l.busy != nil || l.queue || l.jobs.len() == 0 {
		return
	}
	l.queue = true
	q.ready.push(l)
	q.work.Signal()
}

// delay sets a job aside until it is due.
func (q *Local) delay(j *job, at time.Time) {
	j.at = at
	heap.Push(&q.delayed, j)
	q.arm()
}

// arm lets due jobs into their lines, and sets the timer for the next.
func (q *Local) arm() {
	now := q.now()
	for len(q.delayed) > 0 && !q.delayed[0].at.After(now) {
		j := heap.Pop(&q.delayed).(*job)
		if j.paused {
			j.paused, j.line.busy = false, nil
			j.line.jobs.unpop(j)
		} else {
			j.line.jobs.push(j)
		}
		q.offer(j.line)
	}
	switch {
	case len(q.delayed) == 0:
		if q.timer != nil {
			q.timer.Stop()
		}
	case q.timer == nil:
		q.timer = time.AfterFunc(q.wait(now), func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.arm()
		})
	default:
		q.timer.Reset(q.wait(now))
	}
}

func (q *Local) wait(now time.Time) time.Duration { return min(q.delayed[0].at.Sub(now), maxTimer) }

// delayed is a heap of jobs, the first due at its top.
type delayed []*job

func (d delayed) Len() int { return len(d) }

func (d delayed) Less(i, j int) bool {
	if c := d[i].at.Compare(d[j].at); c != 0 {
		return c < 0
	}
	return d[i].seq < d[j].seq
}

func (d delayed) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

func (d *delayed) Push(x any) {
	j := x.(*job)
	j.index = len(*d)
	*d = append(*d, j)
}

func (d *delayed) Pop() any {
	old := *d
	j := old[len(old)-1]
	old[len(old)-1] = nil
	j.index = -1
	*d = old[:len(old)-1]
	return j
}
