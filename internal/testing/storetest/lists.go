package storetest

import (
	"encoding/json"
	"fmt"
	"testing"

	"mcp-code-exec-harness/internal/task"
)

func list(t *testing.T, open Place) {
	s := open(t)
	for i, c := range []struct {
		user, session string
		ended         task.Status
	}{{"ann", "s1", task.Succeeded}, {"bob", "s2", ""}, {"ann", "s1", task.Failed}, {"ann", "s3", ""}, {"ann", "s1", ""}} {
		id := fmt.Sprint("task_", i)
		n := New(id, c.user, c.session)
		n.Task.Context = json.RawMessage(`"large"`)
		mustCreate(t, s, n)
		if c.ended != "" {
			mustCommit(t, s, id, ended(mustClaim(t, s, id), c.ended, at(i)))
		}
	}
	for _, c := range []struct {
		f    task.Filter
		want string
	}{
		{task.Filter{}, "task_4 task_3 task_2 task_1 task_0"},
		{task.Filter{UserID: "ann"}, "task_4 task_3 task_2 task_0"},
		{task.Filter{UserID: "nobody"}, ""},
		{task.Filter{SessionID: "s1"}, "task_4 task_2 task_0"},
		{task.Filter{SessionID: "nowhere"}, ""},
		{task.Filter{Status: task.Queued}, "task_4 task_3 task_1"},
		{task.Filter{UserID: "ann", Status: task.Queued}, "task_4 task_3"},
		{task.Filter{UserID: "bob", SessionID: "s1"}, ""},
		{task.Filter{UserID: "ann", SessionID: "s1", Status: task.Failed}, "task_2"},
	} {
		tasks, next, err := s.Tasks(t.Context(), c.f)
		wantIDs(t, fmt.Sprintf("%+v", c.f), c.want, tasks, err)
		if next != "" {
			t.Errorf("%+v: there is more after %q", c.f, next)
		}
	}
	tasks, _, err := s.Tasks(t.Context(), task.Filter{Limit: 1})
	must(t, "list", err)
	want := mustTask(t, s, "task_4")
	if string(want.Context) != `"large"` {
		t.Errorf("the task has the context %s", want.Context)
	}
	want.Context = nil
	wantEqual(t, "listed", []task.Task{want}, tasks)
	_, _, err = s.Tasks(t.Context(), task.Filter{Cursor: "x'; --"})
	wantIs(t, "an unknown cursor", err, task.ErrInvalidInput)
	_, _, err = s.Sessions(t.Context(), task.SessionFilter{Cursor: "1-2"})
	wantIs(t, "an unknown session cursor", err, task.ErrInvalidInput)
}

// search tests the search for words, and for beginnings of words, in the tasks of one user or of all users.
func search(t *testing.T, open Place) {
	s := open(t)
	for i, c := range []struct{ user, text string }{
		{"ann", "Total sales by region, from orders.csv"},
		{"bob", "The SALES of [EMAIL_1] by Größe"},
		{"ann", "Refund [EMAIL_12]; owner words u616e6e"},
		{"ann'\"*", "sales \"quoted\" AND NOT region OR salesman"},
		{"Ann", "日本語の報告"},
		{"bob", "Write to pii_1e@d1.pii.invalid and pii_12e@d1.pii.invalid"},
		{"bob", "Write to pii_12e@d1.pii.invalid"},
	} {
		n := New(fmt.Sprint("task_", i), c.user, fmt.Sprint("s", i))
		n.Task.Task = c.text
		mustCreate(t, s, n)
	}
	for _, c := range []struct {
		f    task.Filter
		want string
	}{
		{task.Filter{Search: "sales"}, "task_3 task_1 task_0"},
		{task.Filter{Search: "salesm"}, ""},
		{task.Filter{Search: "salesm*"}, "task_3"},
		{task.Filter{Search: " SALES  reg* "}, "task_3 task_0"},
		{task.Filter{Search: "sales", UserID: "ann"}, "task_0"},
		{task.Filter{Search: "sales", UserID: "ann'\"*"}, "task_3"},
		{task.Filter{Search: "sales", UserID: "Ann"}, ""},
		{task.Filter{Search: "u616e6e", UserID: "bob"}, ""}, // the index represents the user ann by this word
		{task.Filter{Search: "ales"}, ""},
		{task.Filter{Search: "gross* groß*"}, ""},
		{task.Filter{Search: "grosse"}, ""},
		{task.Filter{Search: "große"}, "task_1"},
		{task.Filter{Search: "[EMAIL_1]"}, "task_1"},
		{task.Filter{Search: "pii_1e@d1.pii.invalid"}, "task_5"},
		{task.Filter{Search: "orders.csv -"}, "task_0"},
		{task.Filter{Search: "NOT OR AND"}, "task_3"},
		{task.Filter{Search: `"sales" region* words:sales`}, ""},
		{task.Filter{Search: `") OR words : ("`}, ""},
		{task.Filter{Search: "日本語*"}, "task_4"},
		{task.Filter{Search: "sales", SessionID: "s1"}, "task_1"},
		{task.Filter{Search: "sales", Status: task.Failed}, ""},
		{task.Filter{Search: "sales\x00region \xff"}, "task_3 task_0"},
	} {
		tasks, next, err := s.Tasks(t.Context(), c.f)
		wantIDs(t, fmt.Sprintf("%+v", c.f), c.want, tasks, err)
		if next != "" {
			t.Errorf("%+v: there is more after %q", c.f, next)
		}
	}
	first, next, err := s.Tasks(t.Context(), task.Filter{Search: "sales", Limit: 2})
	wantIDs(t, "first page", "task_3 task_1", first, err)
	rest, _, err := s.Tasks(t.Context(), task.Filter{Search: "sales", Limit: 2, Cursor: next})
	wantIDs(t, "second page", "task_0", rest, err)
	for _, none := range []string{"-- *", "sales a*", " "} {
		_, _, err = s.Tasks(t.Context(), task.Filter{Search: none})
		wantIs(t, fmt.Sprintf("a search for %q", none), err, task.ErrInvalidInput)
	}
}

// pages tests that each page continues where the last one stopped, even if entries are added in between.
func pages(t *testing.T, open Place) {
	s := open(t)
	for i := range 7 {
		mustCreate(t, s, New(fmt.Sprint("task_", i), "ann", fmt.Sprint("s", i)))
	}
	var gotTasks, gotSessions []string
	f, g := task.Filter{UserID: "ann", Limit: 3}, task.SessionFilter{UserID: "ann", Limit: 3, Now: begin}
	for page := range 3 {
		tasks, next, err := s.Tasks(t.Context(), f)
		must(t, "tasks", err)
		gotTasks = append(gotTasks, ids(tasks))
		f.Cursor = next
		sessions, more, err := s.Sessions(t.Context(), g)
		must(t, "sessions", err)
		for _, session := range sessions {
			gotSessions = append(gotSessions, session.ID)
		}
		g.Cursor = more
		if last := page == 2; (next == "") != last || (more == "") != last {
			t.Errorf("page %d continues at %q and %q", page, next, more)
		}
		mustCreate(t, s, New(fmt.Sprint("new_", page), "ann", fmt.Sprint("new", page)))
	}
	wantEqual(t, "tasks", []string{"task_6 task_5 task_4", "task_3 task_2 task_1", "task_0"}, gotTasks)
	wantEqual(t, "sessions", []string{"s6", "s5", "s4", "s3", "s2", "s1", "s0"}, gotSessions)
	full, next, err := s.Tasks(t.Context(), task.Filter{Limit: 10})
	if err != nil || len(full) != 10 || next != "" {
		t.Errorf("a page as long as the list: %d tasks, next %q, %v", len(full), next, err)
	}
}

func history(t *testing.T, open Place) {
	s := open(t)
	for i := range 5 {
		id := fmt.Sprint("task_", i)
		mustCreate(t, s, New(id, "ann", "s"))
		if i == 1 || i == 4 {
			continue
		}
		done := ended(mustClaim(t, s, id), task.Succeeded, at(9-i))
		done.Steps = []task.Step{{Time: begin, Note: &task.Note{Text: id}}}
		mustCommit(t, s, id, done)
	}
	for _, user := range []string{"ann", "bob"} {
		mustCreate(t, s, New("other_"+user, user, map[string]string{"ann": "s2", "bob": "s"}[user]))
		finish(t, s, "other_"+user, at(1))
	}
	for _, c := range []struct {
		of    string
		limit int
		want  []string
	}{
		{"task_0", 9, nil},
		{"task_1", 9, []string{"task_0"}},
		{"task_3", 9, []string{"task_0", "task_2"}},
		{"task_4", 9, []string{"task_0", "task_2", "task_3"}},
		{"task_4", 2, []string{"task_2", "task_3"}},
		{"nobody", 9, nil},
	} {
		past, err := s.History(t.Context(), c.of, c.limit)
		must(t, "history", err)
		var got []string
		for _, p := range past {
			if len(p.Steps) != 1 || p.Steps[0].Note.Text != p.Task.ID {
				t.Errorf("%s has the steps %v", p.Task.ID, p.Steps)
			}
			got = append(got, p.Task.ID)
		}
		wantEqual(t, fmt.Sprint("before ", c.of, ", ", c.limit), c.want, got)
	}
}

func cached(t *testing.T, open Place) {
	s := open(t)
	for i, c := range []struct {
		user, key string
		status    task.Status
		cached    bool
		ended     int
	}{
		{"ann", "k", task.Succeeded, false, 10},
		{"ann", "k", task.Succeeded, false, 30},
		{"ann", "k", task.Succeeded, false, 20}, // created later, but ended earlier
		{"ann", "k", task.Failed, false, 40},
		{"ann", "k", task.Succeeded, true, 50}, // answered from the cache
		{"bob", "k", task.Succeeded, false, 60},
		{"ann", "other", task.Succeeded, false, 70},
		{"ann", "", task.Succeeded, false, 80},
	} {
		n := New(fmt.Sprint("task_", i), c.user, fmt.Sprint("s", i))
		n.Task.CacheKey = c.key
		mustCreate(t, s, n)
		done := ended(mustClaim(t, s, n.Task.ID), c.status, at(c.ended))
		done.Task.Cached = c.cached
		mustCommit(t, s, n.Task.ID, done)
	}
	mustCreate(t, s, func() task.New { n := New("queued", "ann", "sq"); n.Task.CacheKey = "k"; return n }())
	for _, c := range []struct {
		user, key string
		since     int
		want      string
	}{
		{"ann", "k", 0, "task_1"},
		{"ann", "k", 29, "task_1"},
		{"ann", "k", 30, ""},
		{"bob", "k", 0, "task_5"},
		{"ann", "other", 0, "task_6"},
		{"ann", "", 0, ""},
		{"eve", "k", 0, ""},
	} {
		got, err := s.Cached(t.Context(), c.user, c.key, at(c.since))
		if c.want == "" {
			wantIs(t, fmt.Sprintf("%+v", c), err, task.ErrNotFound)
		} else if err != nil || got.ID != c.want {
			t.Errorf("%+v: %s, %v", c, got.ID, err)
		}
	}
}
