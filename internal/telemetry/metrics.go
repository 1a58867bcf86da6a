package telemetry

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/task"
)

// Metrics counts events for Prometheus. Its methods are safe for concurrent use. If callers can make up the values of a label, the number of values
// is limited.
type Metrics struct {
	registry *prometheus.Registry

	runs        *prometheus.CounterVec
	runSeconds  prometheus.Histogram
	runErrors   *prometheus.CounterVec
	runsRunning prometheus.Gauge

	toolCalls   *prometheus.CounterVec
	toolSeconds *prometheus.HistogramVec

	modelRequests *prometheus.CounterVec
	modelSeconds  *prometheus.HistogramVec
	modelTokens   *prometheus.CounterVec
	modelCost     *prometheus.CounterVec

	tasks       *prometheus.CounterVec
	savedTokens prometheus.Gauge

	requests       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
	authFailures   prometheus.Counter
	rateLimited    prometheus.Counter
	webhooks       *prometheus.CounterVec

	servers, models, routes bounded
}

// Histogram buckets, in seconds. executionBuckets are those of the original system.
var (
	executionBuckets = []float64{0.1, 0.5, 1, 2, 5, 10, 30}
	callBuckets      = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
	modelBuckets     = []float64{0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300}
)

// NewMetrics returns metrics with their own registry, which includes the metrics of the Go runtime and of the process.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	m.runs = m.counters("mcp_executions_total", "Programs that were executed.", "status")
	m.runSeconds = m.histograms("mcp_execution_duration_seconds", "Time programs took, waiting for tools included.", executionBuckets).
		WithLabelValues().(prometheus.Histogram)
	m.runErrors = m.counters("harness_run_errors_total", "Programs that did not succeed, by the kind of their error.", "kind")
	m.runsRunning = m.gauge("harness_runs_in_flight", "Programs being executed.")

	m.toolCalls = m.counters("harness_tool_calls_total", "Calls of tools.", "server", "outcome")
	m.toolSeconds = m.histograms("harness_tool_call_duration_seconds", "Time servers took to answer calls.", callBuckets, "server")

	m.modelRequests = m.counters("harness_model_requests_total", "Turns that models were asked for.", "provider", "model", "outcome")
	m.modelSeconds = m.histograms("harness_model_request_duration_seconds", "Time models took for a turn, attempts that failed included.",
		modelBuckets, "provider", "model")
	m.modelTokens = m.counters("harness_model_tokens_total",
		"Tokens as providers report them. cached_input and cache_write are part of input, reasoning of output.", "provider", "model", "kind")
	m.modelCost = m.counters("harness_model_cost_usd_total", "Cost of tokens at known prices, in US dollars.", "provider", "model")

	m.tasks = m.counters("harness_tasks_total", "Tasks that have ended.", "status")
	m.savedTokens = m.gauge("harness_saved_tokens_estimate",
		"Estimated model tokens of calling the tools directly, minus those that tasks used; since the start.")

	m.requests = m.counters("harness_http_requests_total", "HTTP requests that were answered.", "route", "method", "code")
	m.requestSeconds = m.histograms("harness_http_request_duration_seconds", "Time HTTP requests took.", callBuckets, "route", "method")
	m.authFailures = m.counters("harness_auth_failures_total", "Requests without valid credentials.").WithLabelValues()
	m.rateLimited = m.counters("harness_rate_limited_total", "Requests refused because their user asked too often.").WithLabelValues()
	m.webhooks = m.counters("harness_webhooks_total", "Notifications sent to callback addresses.", "outcome")

	// Series that alerts watch exist from the start, at 0.
	for _, status := range []string{run.Succeeded, run.Failed, run.Cancelled} {
		m.runs.WithLabelValues(status)
	}
	for _, kind := range []string{frame.KindTimeout, frame.KindMemory, frame.KindOutputLimit, frame.KindCallLimit, frame.KindCrash, frame.KindInDoubt} {
		m.runErrors.WithLabelValues(kind)
	}
	for _, status := range []task.Status{task.Succeeded, task.Failed, task.Cancelled} {
		m.tasks.WithLabelValues(string(status))
	}
	return m
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.With(m.registry).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (m *Metrics) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return promauto.With(m.registry).NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	return promauto.With(m.registry).NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// Handler returns a handler that answers scrapes.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// RunStarted counts a program that begins. RunEnded must follow.
func (m *Metrics) RunStarted() {
	m.runsRunning.Inc()
}

// RunEnded counts a program that has ended; out is nil if the harness failed to execute it.
func (m *Metrics) RunEnded(out *run.Outcome) {
	m.runsRunning.Dec()
	if out == nil {
		m.runs.WithLabelValues("error").Inc()
		return
	}
	m.runs.WithLabelValues(out.Status).Inc()
	m.runSeconds.Observe(time.Duration(out.Duration).Seconds())
	if out.Error != nil {
		m.runErrors.WithLabelValues(out.Error.Kind).Inc()
	}
}

// ToolCall counts a call of a tool and how it ended: "ok" or the kind of its error.
func (m *Metrics) ToolCall(server, outcome string, d time.Duration) {
	server = m.servers.label(server)
	m.toolCalls.WithLabelValues(server, outcome).Inc()
	m.toolSeconds.WithLabelValues(server).Observe(d.Seconds())
}

// ModelTurn counts a request to a model for a turn. cost is in US dollars, or nil if it is not known; err is the error if there was no turn.
func (m *Metrics) ModelTurn(info model.Info, usage model.Usage, cost *float64, d time.Duration, err error) {
	name := m.models.label(info.Name)
	m.modelRequests.WithLabelValues(info.Provider, name, modelOutcome(err)).Inc()
	m.modelSeconds.WithLabelValues(info.Provider, name).Observe(d.Seconds())
	for kind, n := range map[string]int{
		"input": usage.Input, "cached_input": usage.CachedInput, "cache_write": usage.CacheWrite,
		"output": usage.Output, "reasoning": usage.Reasoning,
	} {
		if n > 0 { // a counter panics if n is negative
			m.modelTokens.WithLabelValues(info.Provider, name, kind).Add(float64(n))
		}
	}
	if cost != nil && *cost > 0 {
		m.modelCost.WithLabelValues(info.Provider, name).Add(*cost)
	}
}

func modelOutcome(err error) string {
	if err == nil {
		return "ok"
	}
	if kind := errorType(err); kind != otherError {
		return kind
	}
	return other
}

// TaskEnded counts a task that has ended, and the tokens that it saved.
func (m *Metrics) TaskEnded(t *task.Task) {
	m.tasks.WithLabelValues(string(t.Status)).Inc()
	if d := t.Usage.Direct; d != nil {
		m.savedTokens.Add(float64(d.Input + d.Output - t.Usage.Tokens.Input - t.Usage.Tokens.Output))
	}
}

// HTTP counts an answered request. route is the pattern that matched, or "" if none did.
func (m *Metrics) HTTP(route, method string, code int, d time.Duration) {
	route = m.routes.label(cmp.Or(route, other))
	method = known(method)
	m.requests.WithLabelValues(route, method, strconv.Itoa(code)).Inc()
	m.requestSeconds.WithLabelValues(route, method).Observe(d.Seconds())
}

// known returns the method of a request, or other if it is not a usual one, because clients can send any word.
func known(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	default:
		return other
	}
}

// AuthFailed counts a request without valid credentials.
func (m *Metrics) AuthFailed() {
	m.authFailures.Inc()
}

// RateLimited counts a request that was refused because its user asked too often.
func (m *Metrics) RateLimited() {
	m.rateLimited.Inc()
}

// Webhook counts a notification. outcome is one of a few fixed words.
func (m *Metrics) Webhook(outcome string) {
	m.webhooks.WithLabelValues(outcome).Inc()
}
