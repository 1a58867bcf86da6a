package api_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// POST /v1/tasks answers 202 with the location of the task, which has all fields once it has ended.
func TestCreateTask(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	r := w.do("POST", "/v1/tasks", map[string]any{
		"userId": "alice", "task": "RUN<<return {total: 42}>>", "context": []int{1}, "model": "other-model", "budget": map[string]any{"turns": 3, "wall": "1m"},
		"unknown": "is ignored",
	}).want(http.StatusAccepted)
	id := r.field("id")
	if r.header.Get("Location") != "/v1/tasks/"+id || r.field("status") != "queued" {
		t.Errorf("%s: %s", r.header.Get("Location"), r.body)
	}
	got := w.task(id)
	if got.Status != task.Succeeded || string(got.Output) != `{"total":42}` || got.Text != "Done." || got.Message == "" || got.EndedAt == nil ||
		len(got.Runs) != 1 || got.Usage.Turns != 2 || string(got.Context) != "[1]" || got.Model != "other-model" || got.Budget.Turns != 3 {
		t.Errorf("got %+v", got)
	}
	if asked := w.model.Requests()[0]; asked.Model != "other-model" {
		t.Errorf("the model asked was %s", asked.Model)
	}
}

// Lists go from the newest to the oldest, in pages without gaps and repetitions, and accept filters.
func TestPaging(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	var made []string
	for i := range 7 {
		user := []string{"alice", "bob"}[i%2]
		body := map[string]string{"userId": user, "task": "SAY<<x>>", "sessionId": fmt.Sprintf("%s-%d", user, i%3)}
		made = append(made, w.do("POST", "/v1/tasks", body).want(http.StatusAccepted).field("id"))
	}
	for _, id := range made {
		w.task(id)
	}
	slices.Reverse(made)
	page := func(list, field, key, query string) (ids []string, next string) {
		var fields map[string]json.RawMessage
		w.do("GET", "/v1/"+list+"?"+query, nil).want(http.StatusOK).json(&fields)
		var items []map[string]any
		if err := json.Unmarshal(fields[field], &items); err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			ids = append(ids, item[key].(string))
		}
		json.Unmarshal(fields["next"], &next)
		return ids, next
	}
	all := func(list, key, query string) (ids []string) {
		for cursor := ""; ; {
			some, next := page(list, list, key, query+"&limit=3&cursor="+cursor)
			ids = append(ids, some...)
			if cursor = next; next == "" {
				return ids
			}
			if len(some) != 3 {
				t.Fatalf("a page that has a next one has %d", len(some))
			}
		}
	}
	if got := all("tasks", "id", ""); !slices.Equal(got, made) {
		t.Errorf("tasks: %v, want %v", got, made)
	}
	if got := all("tasks", "id", "userId=bob"); !slices.Equal(got, []string{made[1], made[3], made[5]}) {
		t.Errorf("tasks of bob: %v", got)
	}
	if got := all("tasks", "id", "userId=alice&sessionId=alice-0"); !slices.Equal(got, []string{made[0], made[6]}) {
		t.Errorf("tasks of alice-0: %v", got)
	}
	if got := all("tasks", "id", "userId=bob&sessionId=alice-0"); len(got) != 0 {
		t.Errorf("tasks of bob in alice-0: %v", got)
	}
	if got := all("tasks", "id", "status=failed"); len(got) != 0 {
		t.Errorf("failed tasks: %v", got)
	}
	if got := all("tasks", "id", "status=succeeded"); len(got) != 7 {
		t.Errorf("tasks that succeeded: %v", got)
	}
	var runs []string
	for range 5 {
		runs = append(runs, w.do("POST", "/v1/runs", map[string]string{"userId": "alice", "code": "return 1"}).want(http.StatusOK).field("runId"))
	}
	slices.Reverse(runs)
	if got := all("runs", "runId", ""); !slices.Equal(got, runs) {
		t.Errorf("runs: %v, want %v", got, runs)
	}
	if got := all("runs", "runId", "userId=bob"); len(got) != 0 {
		t.Errorf("runs of bob: %v", got)
	}
	if got := all("sessions", "id", ""); len(got) != 6 {
		t.Errorf("sessions: %v", got)
	}
	for _, bad := range []string{"limit=0", "limit=1001", "limit=x", "cursor=zzz", "status=unknown"} {
		w.do("GET", "/v1/tasks?"+bad, nil).want(http.StatusBadRequest)
	}
	w.do("GET", "/v1/runs?cursor=zzz", nil).want(http.StatusBadRequest)
	w.do("GET", "/v1/sessions?cursor=zzz", nil).want(http.StatusBadRequest)
}

// A repeated request gets the task of the first one. The same key with a different request is the only case of status 422.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	alice, bob := w.key("alice"), w.key("bob")
	send := func(key, path string, body map[string]any) *reply {
		return w.as(key, "POST", path, body, "Idempotency-Key", "k1")
	}
	body := map[string]any{"task": "SAY<<x>>", "context": map[string]int{"b": 1, "a": 2}}
	first := send(alice, "/v1/tasks", body).want(http.StatusAccepted).field("id")
	if again := send(alice, "/v1/tasks", body).want(http.StatusAccepted).field("id"); again != first {
		t.Errorf("the second is %s, the first was %s", again, first)
	}
	// An equal request in other words: userId is the user of the key, and the unknown field is ignored.
	same := map[string]any{"task": "SAY<<x>>", "context": map[string]int{"a": 2, "b": 1}, "userId": "alice", "unknown": 1}
	if again := send(alice, "/v1/tasks", same).want(http.StatusAccepted).field("id"); again != first {
		t.Errorf("the second is %s, the first was %s", again, first)
	}
	if again := send(alice, "/task", body).want(http.StatusOK).field("taskId"); again != first {
		t.Errorf("the second is %s, the first was %s", again, first)
	}
	send(alice, "/v1/tasks", map[string]any{"task": "SAY<<y>>"}).want(http.StatusUnprocessableEntity)
	send(alice, "/task", map[string]any{"task": "SAY<<y>>"}).want(http.StatusUnprocessableEntity)
	if other := send(bob, "/v1/tasks", body).want(http.StatusAccepted).field("id"); other == first {
		t.Error("another user's request got the same task")
	}
	long := strings.Repeat("k", 201)
	w.as(alice, "POST", "/v1/tasks", body, "Idempotency-Key", long).want(http.StatusBadRequest)
	w.as(alice, "POST", "/task", body, "Idempotency-Key", long).want(http.StatusBadRequest)
}

// A task with a later start waits and can be cancelled. A task that has ended cannot be cancelled.
func TestRunAt(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	later := map[string]any{"userId": "alice", "task": "SAY<<x>>", "runAt": time.Now().Add(time.Hour)}
	id := w.do("POST", "/v1/tasks", later).want(http.StatusAccepted).field("id")
	soon := w.do("POST", "/v1/tasks", map[string]any{"userId": "alice", "task": "SAY<<x>>", "runAt": time.Now().Add(-time.Hour)}).want(http.StatusAccepted)
	if got := w.task(soon.field("id")); got.Status != task.Succeeded {
		t.Errorf("got %+v", got)
	}
	if got := w.do("GET", "/v1/tasks/"+id, nil).want(http.StatusOK).field("status"); got != "queued" {
		t.Errorf("it is %s", got)
	}
	if got := w.do("POST", "/v1/tasks/"+id+"/cancel", nil).want(http.StatusOK).field("status"); got != "cancelled" {
		t.Errorf("it is %s", got)
	}
	w.do("POST", "/v1/tasks/"+id+"/cancel", nil).want(http.StatusOK)
	w.do("POST", "/v1/tasks/"+soon.field("id")+"/cancel", nil).want(http.StatusConflict)
	w.do("POST", "/v1/tasks/task_none/cancel", nil).want(http.StatusNotFound)
	w.do("POST", "/v1/tasks", map[string]any{"userId": "alice", "task": "x", "runAt": "tomorrow"}).want(http.StatusBadRequest)
}

// A running task ends soon after it is cancelled.
func TestCancelRunning(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	id := w.do("POST", "/v1/tasks", map[string]any{"userId": "alice", "task": "HOLD<<x>>"}).want(http.StatusAccepted).field("id")
	w.eventually("the model is asked", func() bool { return len(w.model.Requests()) > 0 })
	w.do("POST", "/v1/tasks/"+id+"/cancel", nil).want(http.StatusOK)
	if got := w.task(id); got.Status != task.Cancelled || got.Error.Kind != task.KindCancelled {
		t.Errorf("got %+v", got)
	}
}

// If a caller of /task disconnects, the task is cancelled unless the request has an idempotency key.
func TestAbandon(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	for name, c := range map[string]struct {
		path, key string
		want      task.Status
	}{
		"sync":           {"/task", "", task.Cancelled},
		"stream":         {"/task/stream", "", task.Cancelled},
		"sync with key":  {"/task", "a", task.Succeeded},
		"stream and key": {"/task/stream", "b", task.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			asked := len(w.model.Requests())
			body, _ := json.Marshal(map[string]string{"userId": name, "task": "HOLD<<x>>"})
			req, _ := http.NewRequest(http.MethodPost, w.url+c.path, strings.NewReader(string(body)))
			if c.key != "" {
				req.Header.Set("Idempotency-Key", c.key)
			}
			ctx, cancel := contextWithCancel(t)
			done := make(chan error, 1)
			go func() {
				resp, err := client.Do(req.WithContext(ctx))
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				done <- err
			}()
			w.eventually("the model is asked", func() bool { return len(w.model.Requests()) > asked })
			cancel()
			if err := <-done; err == nil {
				t.Fatal("the caller has not gone away")
			}
			if c.want == task.Succeeded {
				w.gate.open()
			}
			var tasks struct{ Tasks []task.Task }
			w.do("GET", "/v1/tasks?userId="+strings.ReplaceAll(name, " ", "+"), nil).want(http.StatusOK).json(&tasks)
			if len(tasks.Tasks) != 1 {
				t.Fatalf("there are %d tasks", len(tasks.Tasks))
			}
			if got := w.task(tasks.Tasks[0].ID); got.Status != c.want {
				t.Errorf("it is %s: %s", got.Status, got.Message)
			}
		})
		w.gate = newGate()
	}
}

// With cacheSeconds, the answer of an equal task is reused, but only for the same user.
func TestCache(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	ask := func(user string, seconds int) task.Task {
		t.Helper()
		id := w.do("POST", "/v1/tasks", map[string]any{"userId": user, "task": "SAY<<x>>", "cacheSeconds": seconds}).want(http.StatusAccepted).field("id")
		return w.task(id)
	}
	first, again, other, fresh := ask("alice", 60), ask("alice", 60), ask("bob", 60), ask("alice", 0)
	if first.Cached || !again.Cached || again.Text != "x" || other.Cached || fresh.Cached {
		t.Errorf("cached: %t %t %t %t", first.Cached, again.Cached, other.Cached, fresh.Cached)
	}
	w.do("POST", "/v1/tasks", map[string]any{"userId": "alice", "task": "x", "cacheSeconds": -1}).want(http.StatusBadRequest)
	w.do("POST", "/v1/tasks", map[string]any{"userId": "alice", "task": "x", "cacheSeconds": 1e12}).want(http.StatusBadRequest)
}

// A budget limits a task, and the error names the limit that was reached.
func TestBudget(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	for name, c := range map[string]struct {
		budget map[string]any
		word   string
	}{
		"turns":  {map[string]any{"turns": 1}, "turn"},
		"runs":   {map[string]any{"runs": 1, "unknown": 1}, ""},
		"tokens": {map[string]any{"tokens": 50}, "token"},
	} {
		id := w.do("POST", "/v1/tasks", map[string]any{"userId": "alice", "task": "RUN<<return 1>>", "budget": c.budget}).want(http.StatusAccepted).field("id")
		got := w.task(id)
		if c.word == "" {
			if got.Status != task.Succeeded {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if got.Status != task.Failed || got.Error.Kind != task.KindBudget || !strings.Contains(got.Error.Message+got.Message, c.word) {
			t.Errorf("%s: %s %+v", name, got.Message, got.Error)
		}
	}
	for _, bad := range []map[string]any{{"turns": -1}, {"turns": 1.5}, {"costUsd": -0.1}, {"wall": "soon"}, {"wall": -5}, {"tokens": "many"}} {
		w.do("POST", "/v1/tasks", map[string]any{"userId": "alice", "task": "x", "budget": bad}).want(http.StatusBadRequest)
	}
}

// A callback is signed, and comes when the task has ended. Addresses of the machine itself are refused unless configured.
func TestCallback(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{})
	type call struct {
		header http.Header
		body   []byte
	}
	calls := make(chan call, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls <- call{r.Header, body}
	}))
	defer receiver.Close()
	id := w.do("POST", "/v1/tasks", map[string]any{"userId": "alice", "task": "SAY<<x>>", "callbackUrl": receiver.URL + "/hook"}).want(http.StatusAccepted).field("id")
	got := <-calls
	w.eventually("the webhook is counted", func() bool {
		return strings.Contains(w.do("GET", "/metrics", nil).body, `harness_webhooks_total{outcome="delivered"} 1`)
	})
	mac := hmac.New(sha256.New, []byte(webhookSecret))
	fmt.Fprintf(mac, "%s.%s", got.header.Get("X-Harness-Timestamp"), got.body)
	if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); got.header.Get("X-Harness-Signature") != want {
		t.Errorf("the signature is %s, want %s", got.header.Get("X-Harness-Signature"), want)
	}
	var event struct {
		Type string
		Task task.Task
	}
	if err := json.Unmarshal(got.body, &event); err != nil || event.Task.ID != id || event.Task.Status != task.Succeeded {
		t.Errorf("%v: %s", err, got.body)
	}
	strict := setup(t, setting{flags: map[string]string{"server.webhooks.allowPrivate": "false"}})
	for _, bad := range []string{receiver.URL, "http://localhost/x", "http://[::1]/", "http://10.0.0.1/", "ftp://example.com/", "example.com", "http://u:p@example.com/"} {
		strict.do("POST", "/v1/tasks", map[string]any{"userId": "alice", "task": "x", "callbackUrl": bad}).want(http.StatusBadRequest)
		strict.do("POST", "/v1/schedules", map[string]any{"userId": "alice", "task": "x", "cron": "@daily", "callbackUrl": bad}).want(http.StatusBadRequest)
	}
}

// A user counts tokens of personal data, and deletes those of a session.
func TestPII(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	key := w.key("ann")
	var out struct{ Output string }
	w.as(key, "POST", "/v1/runs", map[string]string{"code": "return 'to ann@example.com, bob@example.com'", "sessionId": "s"}).want(http.StatusOK).json(&out)
	if out.Output != "to ann@example.com, bob@example.com" {
		t.Errorf("the owner gets %s", out.Output)
	}
	var stats struct {
		TokenCount int
		Types      map[string]int
	}
	for _, path := range []string{"/v1/pii/stats", "/v1/pii/stats?sessionId=s"} {
		if w.as(key, "GET", path, nil).want(http.StatusOK).json(&stats); stats.TokenCount != 3 || stats.Types["EMAIL"] != 2 || stats.Types["EMAIL_DOMAIN"] != 1 {
			t.Errorf("%s: %+v", path, stats)
		}
	}
	w.as(key, "DELETE", "/v1/pii", nil).want(http.StatusBadRequest)
	w.as(key, "DELETE", "/v1/pii?sessionId=s", nil).want(http.StatusNoContent)
	if w.as(key, "GET", "/v1/pii/stats", nil).want(http.StatusOK).json(&stats); stats.TokenCount != 0 {
		t.Errorf("forgotten: %+v", stats)
	}
}
