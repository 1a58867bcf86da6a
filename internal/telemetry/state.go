package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"mcp-code-exec-harness/internal/sandbox"
)

// State counts what there is at the moment of a scrape. The functions must not wait long; they are safe for concurrent use.
type State struct {
	TasksRunning, TasksQueued   func() int
	RunnersStarted, RunnersIdle func() int // of the sandbox: alive or starting, and of those waiting for a program
	RunnerEvents                func() sandbox.Counts
}

// Watch makes every scrape ask s. It is called once.
func (m *Metrics) Watch(s State) {
	const tasks, runners = "Tasks that have not ended.", "Processes that programs run in: all that are started, and those that wait for a program."
	for _, g := range []struct {
		name, help, state string
		count             func() int
	}{
		{"harness_tasks", tasks, "running", s.TasksRunning},
		{"harness_tasks", tasks, "queued", s.TasksQueued},
		{"harness_sandbox_runners", runners, "started", s.RunnersStarted},
		{"harness_sandbox_runners", runners, "idle", s.RunnersIdle},
	} {
		promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{
			Name: g.name, Help: g.help, ConstLabels: prometheus.Labels{"state": g.state},
		}, func() float64 { return float64(g.count()) })
	}
	for event, count := range map[string]func(sandbox.Counts) uint64{
		"claimed": func(c sandbox.Counts) uint64 { return c.Claims },
		"waited":  func(c sandbox.Counts) uint64 { return c.Waits },
		"started": func(c sandbox.Counts) uint64 { return c.Starts },
		"failed":  func(c sandbox.Counts) uint64 { return c.Failed },
		"died":    func(c sandbox.Counts) uint64 { return c.Deaths },
	} {
		promauto.With(m.registry).NewCounterFunc(prometheus.CounterOpts{
			Name: "harness_sandbox_runner_events_total", ConstLabels: prometheus.Labels{"event": event},
			Help: "Runners lent to programs, programs that found none ready, runners started, starts that failed, and runners that did not end cleanly.",
		}, func() float64 { return float64(count(s.RunnerEvents())) })
	}
}

// maxLabels is the most values of a label. Each value is a set of time series until the process ends.
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
