package wiring_test

import (
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	goredis "github.com/redis/go-redis/v9"

	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/testing/redistest"
)

// TestValuesUntilDue: a vault that forgets values after a time keeps them longer for work that is due later: for a schedule, and for a run that waits for an
// approval.
func TestValuesUntilDue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	up := newUpstream(t, "crm")
	up.add(&mcp.Tool{Name: "send"})
	f := open(t, t.TempDir(), map[string]string{
		"pii.vault": "redis", "redis.url": server.URL, "redis.ttl": "1h", "approvals.expireAfter": "240h", "policy.preset": "guarded",
	}, up.entry)
	models := fake.Serve(func(fake.Request) fake.Reply { return fake.Reply{Text: "done"} })
	t.Cleanup(models.Close)
	address, err := goredis.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := goredis.NewClient(address)
	t.Cleanup(func() { client.Close() })
	left := func() (most time.Duration) {
		t.Helper()
		keys, err := client.Keys(t.Context(), "harness:pii:*:entries").Result()
		if err != nil || len(keys) == 0 {
			t.Fatalf("there are the sessions %v, %v", keys, err)
		}
		for _, key := range keys {
			most = max(most, client.PTTL(t.Context(), key).Val())
		}
		return most
	}
	if f.waits(`callMCPTool("crm__send", {to: "ada@example.com"})`); left() < 240*time.Hour {
		t.Errorf("the values of a run that waits for 240 hours stay for %s", left())
	}
	s := f.tasks(models)
	due := time.Now().Add(50 * 24 * time.Hour)
	later := task.Request{UserID: "ann", Task: "write to bob@example.com", RunAt: &due}
	if _, _, err := s.Submit(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	if left() < 50*24*time.Hour {
		t.Errorf("the values of a task that begins in 50 days stay for %s", left())
	}
	due = time.Now().Add(100 * 24 * time.Hour)
	sched, err := s.CreateSchedule(t.Context(), task.NewSchedule{Request: task.Request{UserID: "ann", Task: "write to grace@example.com", RunAt: &due}})
	if err != nil {
		t.Fatal(err)
	}
	if left() < 100*24*time.Hour {
		t.Errorf("the values of schedule %s, due in 100 days, stay for %s", sched.ID, left())
	}
}
