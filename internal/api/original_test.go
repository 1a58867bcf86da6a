package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// POST /task answers with the fields of the original system, and its messages are true.
func TestTask(t *testing.T) {
	t.Parallel()
	patient, impatient := setup(t, setting{}), setup(t, setting{flags: map[string]string{"sandbox.timeout": "300ms"}})
	for name, c := range map[string]struct {
		task   string
		output any
		logs   []string
		text   string
		fails  string // text that the error contains
		runs   int
	}{
		"a program": {`RUN<<console.log("one"); console.error("two"); return {a: 1}>>`, map[string]any{"a": 1.0}, []string{"one", "error: two"}, "Done.", "", 1},
		"a text":    {"SAY<<Hello.>>", nil, []string{}, "Hello.", "", 0},
		// The model saw the failure and answered, so the task succeeds although its run has failed.
		"a timeout": {"RUN<<for (;;) {}>>", nil, []string{}, "Done.", "", 1},
		"an error":  {"RUN<<throw new Error('no such customer')>>", nil, []string{}, "Done.", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := patient
			if name == "a timeout" {
				w = impatient
			}
			r := w.do("POST", "/task", map[string]any{"userId": "alice", "task": c.task, "context": map[string]any{"n": 1}, "unknown": []int{1}}).want(http.StatusOK)
			var fields map[string]any
			r.json(&fields)
			for _, always := range []string{"message", "logs", "taskId", "sessionId", "runs", "usage"} {
				if fields[always] == nil {
					t.Errorf("%s is not there: %s", always, r.body)
				}
			}
			if diff := cmp.Diff(c.output, fields["output"]); diff != "" {
				t.Errorf("output: %s", diff)
			}
			if _, there := fields["output"]; there != (c.runs > 0) {
				t.Errorf("output is there: %t, of %d runs", there, c.runs)
			}
			var got struct {
				Message, Text, Error, TaskID string
				Logs, Runs                   []string
			}
			r.json(&got)
			if got.Text != c.text || len(got.Runs) != c.runs || !cmp.Equal(got.Logs, c.logs) || (got.Error != "") != (c.fails != "") {
				t.Errorf("got %s", r.body)
			}
			if c.output == nil && c.runs == 1 && strings.Contains(got.Message, "successfully") {
				t.Errorf("the run failed, and the message is %q", got.Message)
			}
			if c.runs == 1 {
				run := w.do("GET", "/v1/runs/"+got.Runs[0], nil).want(http.StatusOK)
				if want := map[string]string{"a timeout": "timeout", "an error": "no such customer"}[name]; !strings.Contains(run.body, want) {
					t.Errorf("the run is %s", run.body)
				}
			}
		})
	}
}

// A failed task is answered with 200 and its error. An internal error is answered with 500 and without its text.
func TestTaskFails(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	var got struct{ Message, Error string }
	w.do("POST", "/task", map[string]string{"userId": "alice", "task": "DENY<<>>"}).want(http.StatusOK).json(&got)
	if got.Error == "" || strings.Contains(got.Message, "successfully") {
		t.Errorf("got %+v", got)
	}
	store, err := w.h.Store()
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	r := w.do("POST", "/task", map[string]string{"userId": "alice", "task": "SAY<<x>>"})
	if r.status != http.StatusInternalServerError || r.field("error") == "" || strings.Contains(r.body, "sql") {
		t.Errorf("got %d %s", r.status, r.body)
	}
}

// Refusals have exactly the documented texts.
func TestTaskRefusals(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	for name, c := range map[string]struct{ body, want string }{
		"no user":                 {`{"task": "x"}`, "userId and task are required"},
		"no task":                 {`{"userId": "alice"}`, "userId and task are required"},
		"nothing":                 {`{}`, "userId and task are required"},
		"no body":                 {``, "userId and task are required"},
		"null":                    {`{"userId": null, "task": "x"}`, "userId and task are required"},
		"empty":                   {`{"userId": "", "task": ""}`, "userId and task are required"},
		"a number as user":        {`{"userId": 7, "task": "x"}`, "Invalid input types"},
		"a list as task":          {`{"userId": "alice", "task": ["x"]}`, "Invalid input types"},
		"an object as session":    {`{"userId": "alice", "task": "x", "sessionId": {}}`, "Invalid input types"},
		"a long user":             {`{"userId": "` + strings.Repeat("ж", 101) + `", "task": "x"}`, "Input too long"},
		"a long task":             {`{"userId": "alice", "task": "` + strings.Repeat("ж", 10_001) + `"}`, "Input too long"},
		"no object":               {`["userId", "task"]`, "the body is not a JSON object"},
		"no JSON":                 {`userId=alice&task=x`, "the body is not a JSON object"},
		"half of it":              {`{"userId": "alice", "task": `, "the body is not a JSON object"},
		"a character of control":  {`{"userId": "al\u0000ice", "task": "x"}`, "userId: the character U+0000 is not allowed in a user id"},
		"a session of a bad name": {`{"userId": "alice", "task": "x", "sessionId": "../x"}`, "invalid input: a session id has letters, digits, '-', '_' and '.' only"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{"/task", "/task/stream"} {
				r := w.do("POST", path, c.body).want(http.StatusBadRequest)
				if got := r.field("error"); got != c.want {
					t.Errorf("%s: %q, want %q", path, got, c.want)
				}
				if kind := r.header.Get("Content-Type"); kind != "application/problem+json" {
					t.Errorf("%s: it is %s", path, kind)
				}
			}
		})
	}
	// The maximum lengths of userId and task are accepted.
	body := map[string]string{"userId": strings.Repeat("ж", 100), "task": "SAY<<ok>>" + strings.Repeat("ж", 10_000-9)}
	w.do("POST", "/task", body).want(http.StatusOK)
	if tasks := w.do("GET", "/v1/tasks", nil).want(http.StatusOK); strings.Count(tasks.body, `"id":"task_`) != 1 {
		t.Errorf("what was refused left tasks: %s", tasks.body)
	}
}

// POST /task/stream sends lines of data, each followed by an empty line, and ends with [DONE].
func TestTaskStream(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	r := w.do("POST", "/task/stream", map[string]string{"userId": "alice", "task": "SAY<<It is\n42 – \"so\".>>"}).want(http.StatusOK)
	if kind := r.header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("it is %s", kind)
	}
	text, failed, done := readChunks(t, r.body)
	if text != "It is\n42 – \"so\"." || failed != "" || !done {
		t.Errorf("got %q, %q, %t: %s", text, failed, done, r.body)
	}
	// The task runs a program before it answers.
	text, failed, done = readChunks(t, w.do("POST", "/task/stream", map[string]string{"userId": "alice", "task": "RUN<<return 1>>"}).want(http.StatusOK).body)
	if text != "Done." || failed != "" || !done {
		t.Errorf("got %q, %q, %t", text, failed, done)
	}
	text, failed, done = readChunks(t, w.do("POST", "/task/stream", map[string]string{"userId": "alice", "task": "DENY<<>>"}).want(http.StatusOK).body)
	if text != "" || failed == "" || !done {
		t.Errorf("got %q, %q, %t", text, failed, done)
	}
}

// readChunks parses the stream of the original system as strictly as clients may.
func readChunks(t *testing.T, body string) (text, failed string, done bool) {
	t.Helper()
	for part := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(part, "data: ")
		if strings.HasPrefix(part, ":") && !strings.Contains(part, "\n") {
			continue // a comment
		}
		if !ok || done || strings.Contains(data, "\n") {
			t.Fatalf("part %q of %q", part, body)
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var d struct{ Chunk, Error string }
		if err := json.Unmarshal([]byte(data), &d); err != nil {
			t.Fatalf("part %q: %v", part, err)
		}
		text += d.Chunk
		failed += d.Error
	}
	return text, failed, done
}

// /health answers as in the original system. /ready checks the parts that tasks need.
func TestHealth(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	var health map[string]string
	w.do("GET", "/health", nil).want(http.StatusOK).json(&health)
	at, err := time.Parse("2006-01-02T15:04:05.000Z", health["timestamp"])
	if err != nil || time.Since(at).Abs() > time.Minute || health["status"] != "ok" || len(health) != 2 {
		t.Errorf("got %v: %v", health, err)
	}
	var ready struct {
		Status string
		Checks map[string]string
	}
	w.eventually("the sandbox is open", func() bool { return w.do("GET", "/ready", nil).json(&ready).status == http.StatusOK })
	want := map[string]string{"store": "ok", "queue": "ok", "sandbox": "ok", "skills": "ok"}
	if diff := cmp.Diff(want, ready.Checks); diff != "" || ready.Status != "ready" {
		t.Errorf("%s %s", ready.Status, diff)
	}
	store, err := w.h.Store()
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	r := w.do("GET", "/ready", nil).want(http.StatusServiceUnavailable).json(&ready)
	if ready.Checks["store"] != "failed" || ready.Checks["sandbox"] != "ok" || strings.Contains(r.body, "sql") {
		t.Errorf("got %s", r.body)
	}
	w.do("GET", "/health", nil).want(http.StatusOK)
}
