package telemetry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	commonmodel "github.com/prometheus/common/model"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/part"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/task"
)

// scrape sends a request as Prometheus does, and returns every sample by name and labels. A histogram has samples for its count, its sum and its buckets that
// are not empty.
func scrape(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(commonmodel.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for name, f := range families {
		if f.GetHelp() == "" {
			t.Errorf("%s has no help", name)
		}
		for _, s := range f.GetMetric() {
			labels := labelText(s)
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				out[name+labels] = s.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				out[name+labels] = s.GetGauge().GetValue()
			case dto.MetricType_HISTOGRAM:
				out[name+"_count"+labels] = float64(s.GetHistogram().GetSampleCount())
				out[name+"_sum"+labels] = s.GetHistogram().GetSampleSum()
				for _, b := range s.GetHistogram().GetBucket() {
					if b.GetCumulativeCount() > 0 && !math.IsInf(b.GetUpperBound(), 1) {
						out[fmt.Sprintf("%s_le_%g%s", name, b.GetUpperBound(), labels)] = float64(b.GetCumulativeCount())
					}
				}
			}
		}
	}
	return out
}

func labelText(m *dto.Metric) string {
	var parts []string
	for _, l := range m.GetLabel() {
		parts = append(parts, l.GetName()+"="+l.GetValue())
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, ",") + "}"
}

// changed returns the harness's own samples that are not 0.
func changed(samples map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for name, v := range samples {
		if (strings.HasPrefix(name, "mcp_") || strings.HasPrefix(name, "harness_")) && v != 0 {
			out[name] = v
		}
	}
	return out
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	cost := 0.25
	anthropic := model.Info{Provider: "anthropic", Name: "claude"}
	for _, tt := range []struct {
		name string
		do   func(*Metrics)
		want map[string]float64
	}{
		{
			"runs", func(m *Metrics) {
				for range 4 {
					m.RunStarted()
				}
				m.RunEnded(&run.Outcome{Status: run.Succeeded, Duration: run.Millis(300 * time.Millisecond)})
				m.RunEnded(&run.Outcome{Status: run.Failed, Duration: run.Millis(20 * time.Second), Error: &run.Error{Kind: frame.KindTimeout}})
				m.RunEnded(nil)
			}, map[string]float64{
				"mcp_executions_total{status=succeeded}": 1, "mcp_executions_total{status=failed}": 1, "mcp_executions_total{status=error}": 1,
				"mcp_execution_duration_seconds_count": 2, "mcp_execution_duration_seconds_sum": 20.3,
				"mcp_execution_duration_seconds_le_0.5": 1, "mcp_execution_duration_seconds_le_1": 1, "mcp_execution_duration_seconds_le_2": 1,
				"mcp_execution_duration_seconds_le_5": 1, "mcp_execution_duration_seconds_le_10": 1, "mcp_execution_duration_seconds_le_30": 2,
				"harness_run_errors_total{kind=timeout}": 1, "harness_runs_in_flight": 1,
			},
		},
		{
			"tools", func(m *Metrics) {
				m.ToolCall("crm", "ok", 40*time.Second)
				m.ToolCall("crm", "timeout", time.Minute)
			}, map[string]float64{
				"harness_tool_calls_total{outcome=ok,server=crm}": 1, "harness_tool_calls_total{outcome=timeout,server=crm}": 1,
				"harness_tool_call_duration_seconds_count{server=crm}": 2, "harness_tool_call_duration_seconds_sum{server=crm}": 100,
				"harness_tool_call_duration_seconds_le_60{server=crm}": 2,
			},
		},
		{
			"models", func(m *Metrics) {
				m.ModelTurn(anthropic, model.Usage{Input: 1000, CachedInput: 800, CacheWrite: 50, Output: 70, Reasoning: 20}, &cost, 250*time.Second, nil)
				m.ModelTurn(anthropic, model.Usage{}, nil, 150*time.Second, fmt.Errorf("ask: %w", &model.Error{Kind: model.KindOverloaded}))
				m.ModelTurn(anthropic, model.Usage{Input: -1}, new(float64), 0, fmt.Errorf("ask: %w", context.Canceled))
				m.ModelTurn(anthropic, model.Usage{}, nil, 0, context.DeadlineExceeded)
				m.ModelTurn(anthropic, model.Usage{}, nil, 0, errors.New("boom"))
			}, map[string]float64{
				"harness_model_requests_total{model=claude,outcome=ok,provider=anthropic}":         1,
				"harness_model_requests_total{model=claude,outcome=overloaded,provider=anthropic}": 1,
				"harness_model_requests_total{model=claude,outcome=cancelled,provider=anthropic}":  1,
				"harness_model_requests_total{model=claude,outcome=timeout,provider=anthropic}":    1,
				"harness_model_requests_total{model=claude,outcome=other,provider=anthropic}":      1,
				"harness_model_tokens_total{kind=input,model=claude,provider=anthropic}":           1000,
				"harness_model_tokens_total{kind=cached_input,model=claude,provider=anthropic}":    800,
				"harness_model_tokens_total{kind=cache_write,model=claude,provider=anthropic}":     50,
				"harness_model_tokens_total{kind=output,model=claude,provider=anthropic}":          70,
				"harness_model_tokens_total{kind=reasoning,model=claude,provider=anthropic}":       20,
				"harness_model_cost_usd_total{model=claude,provider=anthropic}":                    0.25,
				"harness_model_request_duration_seconds_count{model=claude,provider=anthropic}":    5,
				"harness_model_request_duration_seconds_sum{model=claude,provider=anthropic}":      400,
				"harness_model_request_duration_seconds_le_0.5{model=claude,provider=anthropic}":   3,
				"harness_model_request_duration_seconds_le_1{model=claude,provider=anthropic}":     3,
				"harness_model_request_duration_seconds_le_2{model=claude,provider=anthropic}":     3,
				"harness_model_request_duration_seconds_le_5{model=claude,provider=anthropic}":     3,
				"harness_model_request_duration_seconds_le_10{model=claude,provider=anthropic}":    3,
				"harness_model_request_duration_seconds_le_20{model=claude,provider=anthropic}":    3,
				"harness_model_request_duration_seconds_le_30{model=claude,provider=anthropic}":    3,
				"harness_model_request_duration_seconds_le_60{model=claude,provider=anthropic}":    3,
				"harness_model_request_duration_seconds_le_120{model=claude,provider=anthropic}":   3,
				"harness_model_request_duration_seconds_le_300{model=claude,provider=anthropic}":   5,
			},
		},
		{
			"tasks", func(m *Metrics) {
				m.TaskEnded(&task.Task{Status: task.Succeeded, Usage: task.Usage{
					Tokens: model.Usage{Input: 900, Output: 100}, Direct: &task.Direct{Input: 50_000, Output: 500},
				}})
				m.TaskEnded(&task.Task{Status: task.Failed, Usage: task.Usage{ // a task that cost more tokens than it saved
					Tokens: model.Usage{Input: 2000, Output: 500}, Direct: &task.Direct{Input: 1000},
				}})
				m.TaskEnded(&task.Task{Status: task.Cancelled, Usage: task.Usage{Tokens: model.Usage{Input: 7}}})
			}, map[string]float64{
				"harness_tasks_total{status=succeeded}": 1, "harness_tasks_total{status=failed}": 1, "harness_tasks_total{status=cancelled}": 1,
				"harness_saved_tokens_estimate": 49_500 - 1500,
			},
		},
		{
			"http", func(m *Metrics) {
				m.HTTP("/v1/tasks/{id}", "GET", 200, 7*time.Second)
				m.HTTP("", "BREW", 404, 40*time.Second)
				m.AuthFailed()
				m.RateLimited()
				m.RateLimited()
				m.Webhook("delivered")
			}, map[string]float64{
				"harness_http_requests_total{code=200,method=GET,route=/v1/tasks/{id}}":        1,
				"harness_http_requests_total{code=404,method=other,route=other}":               1,
				"harness_http_request_duration_seconds_count{method=GET,route=/v1/tasks/{id}}": 1,
				"harness_http_request_duration_seconds_sum{method=GET,route=/v1/tasks/{id}}":   7,
				"harness_http_request_duration_seconds_le_10{method=GET,route=/v1/tasks/{id}}": 1,
				"harness_http_request_duration_seconds_le_30{method=GET,route=/v1/tasks/{id}}": 1,
				"harness_http_request_duration_seconds_le_60{method=GET,route=/v1/tasks/{id}}": 1,
				"harness_http_request_duration_seconds_count{method=other,route=other}":        1,
				"harness_http_request_duration_seconds_sum{method=other,route=other}":          40,
				"harness_http_request_duration_seconds_le_60{method=other,route=other}":        1,
				"harness_auth_failures_total": 1, "harness_rate_limited_total": 2, "harness_webhooks_total{outcome=delivered}": 1,
			},
		},
		{
			"state", func(m *Metrics) {
				is := func(n int) func() int { return func() int { return n } }
				at := time.Unix(1000, 0)
				load := func(context.Context) (task.Load, error) {
					return task.Load{Queued: 2, Due: 12, OldestDue: at.Add(-13 * time.Second), Approvals: 14, Workers: 15}, nil
				}
				probes := []part.Probe{
					part.NewProbe("store", "", func(context.Context) error { return nil }),
					part.NewProbe("vault", "", func(context.Context) error { return errors.New("away") }),
				}
				m.Watch(State{TasksRunning: is(1), Load: load, Probes: probes, Now: func() time.Time { return at }, Tiers: []string{"wasm", "docker"}, Runners: func(tier string) (int, int, sandbox.Counts) {
					if tier != "wasm" {
						return 0, 0, sandbox.Counts{Claims: 11}
					}
					return 3, 4, sandbox.Counts{Claims: 9, Waits: 8, Cold: 10, Starts: 7, Failed: 6, Deaths: 5}
				}})
			}, map[string]float64{
				"harness_tasks{state=running}": 1, "harness_tasks{state=queued}": 2, "harness_tasks_due": 12, "harness_tasks_due_oldest_seconds": 13,
				"harness_approvals_waiting": 14, "harness_queue_workers": 15, "harness_part_up{part=store}": 1,
				"harness_sandbox_runners{state=started,tier=wasm}": 3, "harness_sandbox_runners{state=idle,tier=wasm}": 4,
				"harness_sandbox_runner_events_total{event=claimed,tier=wasm}": 9, "harness_sandbox_runner_events_total{event=waited,tier=wasm}": 8,
				"harness_sandbox_runner_events_total{event=started,tier=wasm}": 7, "harness_sandbox_runner_events_total{event=failed,tier=wasm}": 6,
				"harness_sandbox_runner_events_total{event=died,tier=wasm}": 5, "harness_sandbox_runner_events_total{event=cold,tier=wasm}": 10,
				"harness_sandbox_runner_events_total{event=claimed,tier=docker}": 11,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := NewMetrics()
			tt.do(m)
			if diff := cmp.Diff(tt.want, changed(scrape(t, m)), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Scrapes within stateTime share the state that was read. While the store does not answer, the counts of the store are left out.
func TestMetricsOfTheStore(t *testing.T) {
	t.Parallel()
	m, now, reads := NewMetrics(), time.Unix(1000, 0), 0
	var away error
	m.Watch(State{TasksRunning: func() int { return 1 }, Now: func() time.Time { return now }, Load: func(context.Context) (task.Load, error) {
		reads++
		return task.Load{Queued: reads}, away
	}})
	for range 2 {
		if got := scrape(t, m); got["harness_tasks{state=queued}"] != 1 {
			t.Errorf("queued: %g, %d reads", got["harness_tasks{state=queued}"], reads)
		}
	}
	now, away = now.Add(stateTime), errors.New("away")
	got := scrape(t, m)
	for _, name := range []string{"harness_tasks{state=queued}", "harness_tasks_due", "harness_tasks_due_oldest_seconds", "harness_approvals_waiting", "harness_queue_workers"} {
		if v, ok := got[name]; ok {
			t.Errorf("%s is %g without a store", name, v)
		}
	}
	if got["harness_tasks{state=running}"] != 1 || reads != 2 {
		t.Errorf("running: %g, %d reads", got["harness_tasks{state=running}"], reads)
	}
}

func TestMetricsAtTheStart(t *testing.T) {
	t.Parallel()
	got := scrape(t, NewMetrics())
	for _, name := range []string{
		"mcp_executions_total{status=succeeded}", "mcp_execution_duration_seconds_count", "harness_run_errors_total{kind=timeout}",
		"harness_auth_failures_total", "harness_tasks_total{status=failed}", "harness_runs_in_flight",
	} {
		if v, ok := got[name]; !ok || v != 0 {
			t.Errorf("%s is %g, %t", name, v, ok)
		}
	}
	if got["go_goroutines"] < 1 {
		t.Errorf("%g goroutines", got["go_goroutines"])
	}
}

// TestMetricsLabelsAreBounded checks that made-up names cannot fill the memory of the harness or of Prometheus.
func TestMetricsLabelsAreBounded(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	for i := range 5 * maxLabels {
		name := fmt.Sprint("n", i)
		m.ToolCall(name, "ok", 0)
		m.ModelTurn(model.Info{Provider: "openai", Name: name}, model.Usage{}, nil, 0, nil)
		m.HTTP("/"+name, name, 200, 0)
	}
	m.ToolCall("n0", "ok", 0)
	samples := scrape(t, m)
	for _, prefix := range []string{"harness_tool_calls_total", "harness_model_requests_total", "harness_http_requests_total"} {
		n := 0
		for name := range samples {
			if strings.HasPrefix(name, prefix+"{") {
				n++
			}
		}
		if n != maxLabels+1 {
			t.Errorf("%s has %d series", prefix, n)
		}
	}
	if got := samples["harness_tool_calls_total{outcome=ok,server=other}"]; got != 4*maxLabels {
		t.Errorf("%g calls of other servers", got)
	}
	if got := samples["harness_tool_calls_total{outcome=ok,server=n0}"]; got != 2 {
		t.Errorf("%g calls of the first server", got)
	}
}

func TestMetricsConcurrently(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 100 {
				m.RunStarted()
				m.RunEnded(&run.Outcome{Status: run.Succeeded})
				m.ToolCall(fmt.Sprint(i), "ok", 0)
			}
		})
	}
	scrape(t, m)
	wg.Wait()
	if got := scrape(t, m)["mcp_executions_total{status=succeeded}"]; got != 800 {
		t.Errorf("%g runs", got)
	}
}

func BenchmarkToolCall(b *testing.B) {
	m := NewMetrics()
	for b.Loop() {
		m.ToolCall("crm", "ok", time.Millisecond)
	}
}
