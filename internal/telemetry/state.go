package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"mcp-code-exec-harness/internal/sandbox"
)

// State provides counts at the time of a scrape. Its functions must not wait long, and are safe for concurrent use.
type State struct {
	TasksRunning, TasksQueued func() int
	Tiers                     []string                                                // tiers of the sandbox
	Runners                   func(tier string) (started, idle int, c sandbox.Counts) // runners alive or starting, idle runners, counts of events
}

// Watch makes every scrape show the counts of s. It must be called once only.
func (m *Metrics) Watch(s State) {
	for state, count := range map[string]func() int{"running": s.TasksRunning, "queued": s.TasksQueued} {
		promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{
			Name: "harness_tasks", Help: "Tasks that have not ended.", ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(count()) })
	}
	for _, tier := range s.Tiers {
		m.watchRunners(tier, func() (started, idle int, c sandbox.Counts) { return s.Runners(tier) })
	}
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
