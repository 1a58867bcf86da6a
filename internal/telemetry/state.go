package telemetry

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"mcp-code-exec-harness/internal/part"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/task"
)

// State provides counts at the time of a scrape. Its functions must not wait long, and are safe for concurrent use.
type State struct {
	TasksRunning func() int
	Load         func(context.Context) (task.Load, error) // counts of the work in the store
	Probes       []part.Probe
	Tiers        []string                                                // tiers of the sandbox
	Runners      func(tier string) (started, idle int, c sandbox.Counts) // runners alive or starting, idle runners, counts of events
	Now          func() time.Time
}

// Watch makes every scrape show the counts of s. It must be called once only.
func (m *Metrics) Watch(s State) {
	m.registry.MustRegister(&stateCollector{State: s})
	for _, tier := range s.Tiers {
		m.watchRunners(tier, func() (started, idle int, c sandbox.Counts) { return s.Runners(tier) })
	}
}

// stateTime is the time for which scrapes share the state that was read from the store and from other parts.
const stateTime = 5 * time.Second

// stateCollector collects counts of tasks and the state of parts. While the store does not answer, it leaves out the counts of the store, because a 0 would
// make an autoscaler end processes.
type stateCollector struct {
	State

	mu   sync.Mutex
	read time.Time // time at which load, err and up were read
	load task.Load
	err  error
	up   []bool // states of the parts in Probes
}

var (
	tasksDesc     = prometheus.NewDesc("harness_tasks", "Tasks that have not ended: in work in this process, or waiting in the store.", []string{"state"}, nil)
	dueDesc       = prometheus.NewDesc("harness_tasks_due", "Sessions in the store with a task that could be worked now, up to 20,000.", nil, nil)
	oldestDesc    = prometheus.NewDesc("harness_tasks_due_oldest_seconds", "How long the first of these tasks has been due.", nil, nil)
	approvalsDesc = prometheus.NewDesc("harness_approvals_waiting", "Requests for approvals in the store that wait for a person.", nil, nil)
	workersDesc   = prometheus.NewDesc("harness_queue_workers", "Processes with a valid lease that work the queue of the store.", nil, nil)
	partDesc      = prometheus.NewDesc("harness_part_up", "Whether a part that this process depends on works: 1 or 0.", []string{"part"}, nil)
)

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{tasksDesc, dueDesc, oldestDesc, approvalsDesc, workersDesc, partDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	if c.read.IsZero() || now.Sub(c.read).Abs() >= stateTime {
		c.refresh()
		c.read = now
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(tasksDesc, float64(c.TasksRunning()), "running")
	for i, p := range c.Probes {
		up := 0.0
		if c.up[i] {
			up = 1
		}
		gauge(partDesc, up, p.Name)
	}
	if c.err != nil {
		return
	}
	oldest := 0.0
	if !c.load.OldestDue.IsZero() {
		oldest = max(0, now.Sub(c.load.OldestDue).Seconds())
	}
	gauge(tasksDesc, float64(c.load.Queued), "queued")
	gauge(dueDesc, float64(c.load.Due))
	gauge(oldestDesc, oldest)
	gauge(approvalsDesc, float64(c.load.Approvals))
	gauge(workersDesc, float64(c.load.Workers))
}

func (c *stateCollector) refresh() {
	ctx, cancel := context.WithTimeout(context.Background(), part.ProbeTime)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { c.load, c.err = c.Load(ctx) })
	c.up = nil
	for _, err := range part.CheckAll(ctx, c.Probes) {
		c.up = append(c.up, err == nil)
	}
	wg.Wait()
}

// watchRunners makes every scrape show the runners of a tier.
func (m *Metrics) watchRunners(tier string, runners func() (started, idle int, c sandbox.Counts)) {
	for state, count := range map[string]func() int{
		"started": func() int { started, _, _ := runners(); return started },
		"idle":    func() int { _, idle, _ := runners(); return idle },
	} {
		promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{
			Name: "harness_sandbox_runners", ConstLabels: prometheus.Labels{"state": state, "tier": tier},
			Help: "Processes and containers that programs run in: all that are started, and those that wait for a program.",
		}, func() float64 { return float64(count()) })
	}
	for event, count := range map[string]func(sandbox.Counts) uint64{
		"claimed": func(c sandbox.Counts) uint64 { return c.Claims },
		"waited":  func(c sandbox.Counts) uint64 { return c.Waits },
		"cold":    func(c sandbox.Counts) uint64 { return c.Cold },
		"started": func(c sandbox.Counts) uint64 { return c.Starts },
		"failed":  func(c sandbox.Counts) uint64 { return c.Failed },
		"died":    func(c sandbox.Counts) uint64 { return c.Deaths },
	} {
		promauto.With(m.registry).NewCounterFunc(prometheus.CounterOpts{
			Name: "harness_sandbox_runner_events_total", ConstLabels: prometheus.Labels{"event": event, "tier": tier},
			Help: "Runners lent to programs, programs that found none ready, those of them that waited for a start, runners started, starts that failed, and runners that did not end cleanly.",
		}, func() float64 {
			_, _, c := runners()
			return float64(count(c))
		})
	}
}

// maxLabels is the maximum number of values of a label. Each value adds a set of time series until the process ends.
const (
	maxLabels = 200
	other     = "other"
)

// bounded keeps the first maxLabels values of a label and replaces the others by "other". The zero value is ready for use.
type bounded struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (b *bounded) label(value string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen[value] {
		return value
	}
	if len(b.seen) >= maxLabels {
		return other
	}
	if b.seen == nil {
		b.seen = map[string]bool{}
	}
	b.seen[value] = true
	return value
}
