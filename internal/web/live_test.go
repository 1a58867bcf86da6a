package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// tab follows the events of a run as a page does. After a lost connection, it continues after the last event that it has.
type tab struct {
	client *http.Client
	at     string
	header http.Header
	after  string
	ids    []int64
	parts  map[string]string // newest part of each element
	lines  int
	ended  bool
	light  bool // parses only ids and the end, so that a benchmark measures the server
}

// follow reads events until the run has ended or most events have come.
func (t *tab) follow(ctx context.Context, most int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.at, nil)
	if err != nil {
		return err
	}
	r.Header = t.header.Clone()
	if t.after != "" {
		r.Header.Set("Last-Event-ID", t.after)
	}
	got, err := t.client.Do(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if got.StatusCode == http.StatusNoContent {
		t.ended = true
		return nil
	}
	if got.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", got.StatusCode)
	}
	lines := bufio.NewScanner(got.Body)
	lines.Buffer(nil, 1<<20)
	id := ""
	for lines.Scan() {
		line := lines.Text()
		if value, ok := strings.CutPrefix(line, "id: "); ok {
			id = value
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var part struct {
				ID, HTML, Status string
				N                int
			}
			if t.light {
				if strings.HasPrefix(data, `{"status":"succeeded"`) {
					part.Status = "succeeded"
				}
			} else if err := json.Unmarshal([]byte(data), &part); err != nil {
				return err
			}
			if id != "" {
				n, err := strconv.ParseInt(id, 10, 64)
				if err != nil {
					return err
				}
				t.ids, t.after, id = append(t.ids, n), strconv.FormatInt(n, 10), ""
			}
			if part.ID != "" {
				t.parts[part.ID] = part.HTML
			}
			if part.N > 0 {
				if t.lines++; part.N != t.lines {
					return fmt.Errorf("line %d comes as number %d", part.N, t.lines)
				}
			}
			t.ended = t.ended || part.Status == "succeeded" || part.Status == "failed"
			if most--; most == 0 || t.ended {
				return nil
			}
		}
	}
	return nil // the server has ended the stream, and the tab connects again
}

// watch returns tabs that have followed a run to its end. Every second one loses its connection at random moments.
func (r *reader) watch(t testing.TB, id string, count int, light bool) []*tab {
	t.Helper()
	tabs := make([]*tab, count)
	var all sync.WaitGroup
	for i := range tabs {
		tabs[i] = &tab{client: r.client, at: r.w.url + "/runs/" + id + "/live", header: http.Header{}, parts: map[string]string{}, light: light}
		all.Go(func() {
			for !tabs[i].ended {
				most := -1
				if i%2 == 1 {
					most = 1 + rand.IntN(100)
				}
				if err := tabs[i].follow(t.Context(), most); err != nil {
					t.Errorf("tab %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	return tabs
}

// check compares the events of tabs with the journal. Each tab must have every event once and in order, and the rows must be final.
func (r *reader) check(t testing.TB, id string, tabs []*tab) {
	t.Helper()
	var journal struct {
		Records []struct {
			Seq                            int64
			Call, Intent, Answer, Log, End json.RawMessage
		}
		Next int64
	}
	var want []int64
	for after := int64(0); ; after = journal.Next {
		journal.Next, journal.Records = 0, nil
		r.w.api(r.w.token, "GET", fmt.Sprintf("/v1/runs/%s/journal?cursor=%d", id, after), nil, &journal)
		for _, one := range journal.Records {
			if one.Call != nil || one.Intent != nil || one.Answer != nil || one.Log != nil || one.End != nil {
				want = append(want, one.Seq)
			}
		}
		if journal.Next == 0 {
			break
		}
	}
	for i, tab := range tabs {
		if !slices.Equal(tab.ids, want) {
			t.Errorf("tab %d has %d events, the run %d: %v", i, len(tab.ids), len(want), tab.ids)
		}
		for name, html := range tab.parts {
			if html != tabs[0].parts[name] || !strings.Contains(html, ">ok<") {
				t.Errorf("tab %d has another row %s: %s", i, name, html)
			}
		}
	}
}

// slowRun begins a run with the given number of calls and lines, and returns its id while the run is running.
func (w *world) slowRun(calls int, pause time.Duration) string {
	w.t.Helper()
	var out struct {
		RunID  string `json:"runId"`
		Status string `json:"status"`
	}
	w.api(w.token, "POST", "/v1/runs", map[string]any{"wait": "1ms", "code": fmt.Sprintf(
		"for (let i = 0; i < %d; i++) { await tools.notes.list({i}); console.log('line', i); await utils.sleep(%d); }\nreturn 1", calls, pause.Milliseconds(),
	)}, &out)
	w.eventually("the run has begun", func() bool { return w.api(w.token, "GET", "/v1/runs/"+out.RunID, nil, nil) == http.StatusOK })
	return out.RunID
}

// TestLive checks that tabs get each event of a running run once and in order, even if they lose the connection, with the same rows as the finished page. A
// late tab also gets events that the server no longer has in memory.
func TestLive(t *testing.T) {
	t.Parallel()
	w := setup(t, false, "server: {rateLimit: {enabled: false}}")
	r := w.login(w.token)
	id := w.slowRun(160, 5*time.Millisecond) // five records for each call, more than a feed holds
	tabs := r.watch(t, id, 10, false)
	tabs = append(tabs, r.watch(t, id, 2, false)...)
	r.check(t, id, tabs)
	if len(tabs[0].parts) != 320 || tabs[0].lines != 160 {
		t.Errorf("%d calls and %d lines", len(tabs[0].parts), tabs[0].lines)
	}
	page := r.get("/runs/" + id).text
	for n := 1; n <= 100; n++ {
		row := tabs[0].parts[fmt.Sprintf("c%d", n)]
		for _, piece := range []string{row[:strings.Index(row, "<svg")]} {
			if !strings.Contains(page, piece) {
				t.Fatalf("the finished page has no row %s", piece)
			}
		}
	}
	if again := r.watch(t, id, 1, false); !slices.Equal(again[0].ids, tabs[0].ids) {
		t.Errorf("an ended run: %v", again[0].ids)
	}
	last := &tab{client: r.client, at: w.url + "/runs/" + id + "/live", header: http.Header{}, after: tabs[0].after}
	if err := last.follow(t.Context(), -1); err != nil || !last.ended || len(last.ids) > 0 {
		t.Errorf("behind the end: %v, %v", err, last.ids)
	}
}

// TestBrowserLive checks that the page of a running run shows calls and lines as they happen, requests nothing while it is hidden, and shows the finished run
// at the end.
func TestBrowserLive(t *testing.T) {
	t.Parallel()
	w := setup(t, false)
	ctx := chromium(t)
	seen := w.watch(t, ctx)
	w.logIn(t, ctx)
	id := w.slowRun(40, 50*time.Millisecond)
	const hide = "Object.defineProperty(document, 'hidden', {configurable: true, get: () => %v}); document.dispatchEvent(new Event('visibilitychange'))"
	var text string
	var rows, lines, begun, hidden int
	does(t, ctx, chromedp.Navigate(w.url+"/runs/"+id), visible("#c10"), chromedp.Evaluate(fmt.Sprintf(hide, true), nil),
		chromedp.Evaluate("document.querySelectorAll('#calls tr').length", &begun))
	w.eventually("the run ends", func() bool {
		var run struct{ Status string }
		w.api(w.token, "GET", "/v1/runs/"+id, nil, &run)
		return run.Status == "succeeded"
	})
	does(t, ctx, chromedp.Evaluate("document.querySelectorAll('#calls tr').length", &hidden))
	if hidden != begun {
		t.Errorf("a hidden page follows the run: it has %d rows, and then %d", begun, hidden)
	}
	does(t, ctx, chromedp.Evaluate(fmt.Sprintf(hide, false), nil), visible("form[action$=replay]"))
	does(t, ctx, textOf("main", &text), chromedp.Evaluate("document.querySelectorAll('#calls tr').length", &rows), chromedp.Evaluate("document.querySelectorAll('#console .log').length", &lines))
	if !strings.Contains(text, "succeeded") || rows != 80 || lines != 40 {
		t.Errorf("%d rows, %d lines: %s", rows, lines, text)
	}
	seen.check(t)
}

// tabsVar names a variable with the number of tabs in BenchmarkLive; by default 200.
const tabsVar = "HARNESS_BENCH_TABS"

// BenchmarkLive measures small runs with and without 200 tabs that follow another run of 500 events, and the memory of these tabs.
func BenchmarkLive(b *testing.B) {
	count, err := strconv.Atoi(os.Getenv(tabsVar))
	if err != nil {
		count = 200
	}
	w := setup(b, false, "server: {rateLimit: {enabled: false}}")
	r := w.login(w.token)
	r.client.Transport = &http.Transport{MaxIdleConnsPerHost: count}
	beside := func(until <-chan struct{}) (took []time.Duration) {
		for {
			select {
			case <-until:
				return took
			default:
			}
			began := time.Now()
			if _, status := w.run(w.token, "return 1"); status != "succeeded" {
				b.Fatal(status)
			}
			took = append(took, time.Since(began))
			time.Sleep(5 * time.Millisecond)
		}
	}
	p99 := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)*99/100].Microseconds()) / 1000
	}
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapInuse+m.StackInuse) / (1 << 20)
	}
	for b.Loop() {
		var without, with []time.Duration
		var before, during, best float64
		for round := range 4 { // alternately, so that other load on the machine affects both
			id := w.slowRun(100, 100*time.Millisecond) // five records for each call
			done := make(chan struct{})
			var tabs []*tab
			go func() {
				defer close(done)
				tabs = r.watch(b, id, []int{1, count}[round%2], true)
			}()
			took := beside(done)
			r.check(b, id, tabs)
			if round%2 == 0 {
				without = append(without, took...)
				before = heap()
			} else {
				with = append(with, took...)
				if during = heap(); best == 0 || during < best {
					best = during
				}
			}
		}
		b.ReportMetric(p99(without), "p99-without-ms")
		b.ReportMetric(p99(with), "p99-with-ms")
		b.ReportMetric(best-before, "MiB-kept")
	}
}
