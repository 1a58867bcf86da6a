package cli_test

import (
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/task"
)

// TestSchedules adds, lists and removes schedules.
func TestSchedules(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if r := f.run("schedules", "list").want(0); !strings.Contains(r.stderr, "no schedules; harness schedules add") {
		t.Errorf("without one it says %s", r.stderr)
	}
	var weekly, once task.Schedule
	f.run("schedules", "add", "--json", "--cron", "0 7 * * 1", "--zone", "Europe/Berlin", "Sales of last week").want(0).value(&weekly)
	f.run("schedules", "add", "--json", "--at", time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "--session", "acme", "Remind me").want(0).value(&once)
	if weekly.Next == nil || weekly.Next.Weekday() != time.Monday || once.Next == nil || once.SessionID != "acme" {
		t.Errorf("planned %+v and %+v", weekly, once)
	}
	if r := f.run("schedules", "list").want(0); !strings.Contains(r.stdout, weekly.ID) || !strings.Contains(r.stdout, "0 7 * * 1 Europe/Berlin") ||
		!strings.Contains(r.stdout, "once") || !strings.Contains(r.stdout, "Remind me") {
		t.Errorf("the list is\n%s", r.stdout)
	}
	if r := f.run("schedules", "rm", weekly.ID+"x").want(2); !strings.Contains(r.stderr, weekly.ID) {
		t.Errorf("a misspelt id gives %s", r.stderr)
	}
	f.run("schedules", "rm", weekly.ID).want(0)
	var left struct{ Schedules []task.Schedule }
	if f.run("schedules", "list", "--json", "--user", "local").want(0).value(&left); len(left.Schedules) != 1 || left.Schedules[0].ID != once.ID {
		t.Errorf("left are %+v", left)
	}
	for want, args := range map[string][]string{
		"--cron or --at": {"Sales"},
		"not both":       {"--cron", "@daily", "--at", "2031-01-01T00:00:00Z", "Sales"},
		"is no instant":  {"--at", "tomorrow", "Sales"},
		"cron":           {"--cron", "0 7 * *", "Sales"},
		"no time zone":   {"--cron", "@daily", "--zone", "Atlantis", "Sales"},
		"task are":       {"--cron", "@daily", " "},
	} {
		if r := f.run(append([]string{"schedules", "add"}, args...)...).want(2); !strings.Contains(r.stderr, want) {
			t.Errorf("%q gives %s", args, r.stderr)
		}
	}
}

// TestRunsOfToolsCall checks that the list of runs names the tool of a run of harness tools call.
func TestRunsOfToolsCall(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("crm")
	f.run("tools", "call", "crm__search", "q=").want(0)
	if r := f.run("runs", "list").want(0); !strings.Contains(r.stdout, "call of crm__search") {
		t.Errorf("the list is\n%s", r.stdout)
	}
}
