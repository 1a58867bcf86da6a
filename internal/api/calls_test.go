package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
)

// The list of a run's calls comes in pages without gaps, with the times of each call. A single call is shown with its values.
func TestCalls(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{servers: []*config.MCPServer{badServer(t, "bad", "normal")}})
	var out run.Outcome
	w.do("POST", "/v1/runs", map[string]any{
		"userId": "alice", "sessionId": "s",
		"code": "await Promise.all([1, 2, 3, 4, 5].map((n) => tools.bad.echo({text: 'number ' + n})));\n" +
			"await fs.writeFile('/workspace/a.txt', 'x'); await tools.bad.none({}).catch(() => {}); return 1",
	}).want(http.StatusOK).json(&out)
	var whole api.CallList
	w.do("GET", "/v1/runs/"+out.RunID+"/calls", nil).want(http.StatusOK).json(&whole)
	if len(whole.Calls) != 7 || whole.Next != "" {
		t.Fatalf("%d calls of %+v: %+v", len(whole.Calls), out, whole)
	}
	for i, c := range whole.Calls {
		if c.N != i+1 || c.Answered == nil || c.Answered.Before(c.Began) || c.Doubt || (c.Error != "") != (i == 6) {
			t.Errorf("call %d: %+v", i+1, c)
		}
	}
	if first, file := whole.Calls[0], whole.Calls[5]; first.Name != "bad__echo" || first.Value == 0 || file.Name != "fs.writeFile" || file.Sent == nil {
		t.Errorf("the first call and the one of a file: %+v, %+v", first, file)
	}
	var paged []runs.CallLine
	for cursor := ""; ; {
		var page api.CallList
		w.do("GET", "/v1/runs/"+out.RunID+"/calls?limit=2&cursor="+cursor, nil).want(http.StatusOK).json(&page)
		if len(page.Calls) == 0 || len(page.Calls) > 2 {
			t.Fatalf("a page of %d calls", len(page.Calls))
		}
		paged = append(paged, page.Calls...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if got, want := fmt.Sprintf("%+v", names(paged)), fmt.Sprintf("%+v", names(whole.Calls)); got != want {
		t.Errorf("by pages: %s, at once: %s", got, want)
	}
	for _, query := range []string{"", "?at=" + whole.Calls[2].At} {
		var one runs.Call
		w.do("GET", "/v1/runs/"+out.RunID+"/calls/3"+query, nil).want(http.StatusOK).json(&one)
		if one.N != 3 || string(one.Arguments) != `{"text":"number 3"}` || len(one.Result) != one.Value || !one.Began.Equal(whole.Calls[2].Began) || !one.Answered.Equal(*whole.Calls[2].Answered) {
			t.Errorf("call 3%s: %+v", query, one)
		}
	}
	for _, path := range []string{"/calls/8", "/calls/3?at=99999-1"} {
		w.do("GET", "/v1/runs/"+out.RunID+path, nil).want(http.StatusNotFound)
	}
	for _, cursor := range []string{"x", "1", "0-0", "-1-5", "1-x"} {
		w.do("GET", "/v1/runs/"+out.RunID+"/calls?cursor="+cursor, nil).want(http.StatusBadRequest)
	}
}

// The comparison of two runs comes in pages that together equal the whole comparison.
func TestCompareRuns(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{servers: []*config.MCPServer{badServer(t, "bad", "normal")}})
	program := func(texts string) (id string) {
		return w.do("POST", "/v1/runs", map[string]any{"userId": "alice", "code": "for (const text of " + texts + ") await tools.bad.echo({text}); return 1"}).want(http.StatusOK).field("runId")
	}
	first, second := program("['a', 'b', 'd']"), program("['a', 'b', 'c', 'e']")
	at := "/v1/runs/" + first + "/compare?with=" + second
	var whole api.RunComparison
	w.do("GET", at, nil).want(http.StatusOK).json(&whole)
	differ := func(pairs []runs.CallPair) (all []string) {
		for _, p := range pairs {
			all = append(all, p.Differs)
		}
		return all
	}
	if got := fmt.Sprint(differ(whole.Pairs), whole.Counts, whole.Next); got != "[nothing nothing arguments onlySecond] map[arguments:1 nothing:2 onlySecond:1] 0" {
		t.Errorf("the comparison is %s", got)
	}
	if d := whole.Diverges; d == nil || d.First.N != 3 || d.Second.N != 3 || d.First.At == "" {
		t.Errorf("the first pair that differs is %+v", d)
	}
	var page, last api.RunComparison
	w.do("GET", at+"&limit=3", nil).want(http.StatusOK).json(&page)
	w.do("GET", fmt.Sprintf("%s&limit=3&cursor=%d", at, page.Next), nil).want(http.StatusOK).json(&last)
	if got := differ(append(page.Pairs, last.Pairs...)); !slices.Equal(got, differ(whole.Pairs)) || len(last.Pairs) != 1 || last.Diverges == nil {
		t.Errorf("by pages: %v, %+v", got, last)
	}
	w.do("GET", at+"&cursor=1000", nil).want(http.StatusOK)
	w.do("GET", "/v1/runs/"+first+"/compare?with=run_none", nil).want(http.StatusNotFound)
	w.do("GET", "/v1/runs/run_none/compare?with="+first, nil).want(http.StatusNotFound)
}

// names returns the fields in which pages of calls must agree.
func names(calls []runs.CallLine) (all []string) {
	for _, c := range calls {
		all = append(all, fmt.Sprint(c.N, c.Name, c.Answered, c.Value, c.Error))
	}
	return all
}

// A request whose wait has ended is answered with a running run, which continues without the request.
func TestRunWait(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	const slow = "await new Promise((r) => setTimeout(r, 300)); return 'done'"
	var out run.Outcome
	w.do("POST", "/v1/runs", map[string]any{"userId": "alice", "code": slow, "wait": 0}).want(http.StatusOK).json(&out)
	if out.Status != "running" || out.RunID == "" {
		t.Fatalf("without a wait: %+v", out)
	}
	w.eventually("the run ends", func() bool {
		var kept api.RunDetails
		w.do("GET", "/v1/runs/"+out.RunID, nil).want(http.StatusOK).json(&kept)
		return kept.Status == "succeeded" && string(kept.Output) == `"done"`
	})
	w.do("POST", "/v1/runs", map[string]any{"userId": "alice", "code": "return 2", "wait": "1m"}).want(http.StatusOK).json(&out)
	if out.Status != "succeeded" || string(out.Output) != "2" {
		t.Errorf("with a wait that is long enough: %+v", out)
	}
	w.do("POST", "/v1/runs", map[string]any{"userId": "alice", "code": "return 2", "wait": "long"}).want(http.StatusBadRequest)
	var problem struct{ Status string }
	w.do("POST", "/v1/runs", map[string]any{"userId": "alice", "code": "return (", "wait": 0}).want(http.StatusOK).json(&problem)
	if problem.Status != "failed" {
		t.Errorf("a program that cannot run: %+v", problem)
	}
}

// The events of a task come in pages, up to the end of the task.
func TestTaskHistory(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	var asked task.Task
	w.do("POST", "/v1/tasks", map[string]any{"userId": "alice", "task": "RUN<<console.log('x'); return 1>>"}).want(http.StatusAccepted).json(&asked)
	w.task(asked.ID)
	var types []string
	for next, pages := int64(0), 0; ; pages++ {
		var page api.EventList
		w.do("GET", fmt.Sprintf("/v1/tasks/%s/history?limit=2&cursor=%d", asked.ID, next), nil).want(http.StatusOK).json(&page)
		for _, e := range page.Events {
			if e.ID != int64(len(types)+1) {
				t.Errorf("event %d stands at place %d", e.ID, len(types)+1)
			}
			types = append(types, e.Type)
		}
		if next = page.Next; next == 0 {
			break
		} else if pages > 20 {
			t.Fatal("the pages have no end")
		}
	}
	if n := len(types); n < 6 || types[0] != task.EventQueued || types[n-1] != task.EventEnded {
		t.Errorf("the events are %v", types)
	}
}
