package telemetry

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// State is what there is at the moment of a scrape.
type State struct {
	TasksRunning, TasksQueued   int
	RunnersStarted, RunnersIdle int // of the sandbox: alive or starting, and of those waiting for a program
}

// Watch makes every scrape ask f. f must not wait long, and may be called from several goroutines.
func (m *Metrics) Watch(f func() State) {
	if m != nil {
		m.state.ask.Store(&f)
	}
}

// state is the collector of State.
type state struct {
	ask atomic.Pointer[func() State]
}

var (
	tasksDesc   = prometheus.NewDesc("harness_tasks", "Tasks that have not ended.", []string{"state"}, nil)
	runnersDesc = prometheus.NewDesc("harness_sandbox_runners",
		"Processes that programs run in: all that are started, and those of them that wait for a program.", []string{"state"}, nil)
)

// Describe implements prometheus.Collector.
func (s *state) Describe(ch chan<- *prometheus.Desc) {
	ch <- tasksDesc
	ch <- runnersDesc
}

// Collect implements prometheus.Collector.
func (s *state) Collect(ch chan<- prometheus.Metric) {
	ask := s.ask.Load()
	if ask == nil {
		return
	}
	now := (*ask)()
	gauge := func(desc *prometheus.Desc, n int, state string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), state)
	}
	gauge(tasksDesc, now.TasksRunning, "running")
	gauge(tasksDesc, now.TasksQueued, "queued")
	gauge(runnersDesc, now.RunnersStarted, "started")
	gauge(runnersDesc, now.RunnersIdle, "idle")
}

// maxLabels is how many values a label may have. Each one is a set of time series for as long as the process lives.
const (
	maxLabels = 200
	other     = "other"
)

// bounded lets the first maxLabels values through; the rest are other. The zero value is ready for use.
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
