package sandboxtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/testing/generated"
)

// attacks executes hostile programs.
func (w *world) attacks(t *testing.T, all []*attack) {
	w.besides(t, all, func(t *testing.T, a *attack, beside string) { w.attack(t, a, "mallory", "s", beside) })
	w.closePool()
	eventually(t, func() (bool, string) {
		more := w.holds(t).more(w.empty)
		return len(more) == 0, strings.Join(more, "; ")
	})
}

// onlyGuest are the attacks that the guest's language stops, or code of the host that serves all tiers, before they reach a wall of a tier. Attacks
// that end a runner, exhaust it, fill its streams or look at its surroundings are not among them. Neither are attacks that look at modules or at the
// stack below the program, because these depend on how a tier loads its runner.
var onlyGuest = []string{
	"connect", "escape_async_hooks", "escape_buffer_pool", "escape_getters", "escape_modules", "escape_revoked", "escape_scope", "escape_species",
	"escape_template", "escape_thrown_proxy", "escape_transfer", "escape_wasm", "exit_comment", "exit_syntax", "flood_arguments", "flood_files", "flood_paths",
	"flood_require", "forge_after_end", "forge_call_name", "forge_duplicate_keys", "forge_error_texts", "forge_ids", "forge_kind", "forge_result",
	"forge_thenable", "persist_globals", "persist_hooks", "persist_skill", "pollute_error", "pollute_globals", "pollute_setters", "read_paths",
	"read_regexp_legacy", "read_resources", "read_zones", "symlink", "write_paths",
}

// guestAttacks returns the attacks on the guest, without those that are left to another tier; see [Tier.Shares].
func (w *world) guestAttacks(t testing.TB) []*attack {
	t.Helper()
	all := readAttacks(t, "attacks")
	walled := slices.DeleteFunc(slices.Clone(all), func(a *attack) bool { return slices.Contains(onlyGuest, a.name) })
	if n := len(all) - len(walled); n != len(onlyGuest) {
		t.Fatalf("there are %d of %d attacks", n, len(onlyGuest))
	}
	if w.of.Shares && !generated.Long() {
		return walled
	}
	return all
}

// besides calls execute for each attack, while a run of another user, with the id beside, is under way. After each group of attacks it checks that
// runs of both users behave as usual, that the pool has all its runners, and that nothing else is left. Most of the time goes into these runs, so
// only the long tests have groups of one attack.
func (w *world) besides(t *testing.T, all []*attack, execute func(t *testing.T, a *attack, beside string)) {
	w.openPool()
	w.ordinary(t, "mallory") // files that the first runs open may stay open
	w.ordinary(t, "ann")
	w.measure(t)
	size := 6
	switch {
	case generated.Long():
		size = 1
	case w.of.Pool.MaxRuns == 1: // each run starts a runner
		size = 12
	}
	for group := range slices.Chunk(all, size) {
		beside, end := w.bystander(t)
		for _, a := range group {
			t.Run(a.name, func(t *testing.T) {
				execute(t, a, beside)
				if n := w.dials.Load(); n > 0 {
					t.Fatalf("it connected to the host %d times", n)
				}
			})
		}
		w.ordinary(t, "mallory")
		end()
		w.ordinary(t, "ann")
		w.settle(t)
		if t.Failed() {
			t.Fatalf("after the attacks %s to %s", group[0].name, group[len(group)-1].name)
		}
	}
}

// attack executes a hostile program, and checks what the host reports about it.
func (w *world) attack(t testing.TB, a *attack, user, session, beside string) {
	t.Helper()
	s := w.runs
	if a.limit == "wait" {
		s = w.brief
	}
	code := strings.NewReplacer(
		"$PORT", fmt.Sprint(w.port), "$FILE", w.file, "$DIR", w.dir, "$RUN", beside, "$PID", fmt.Sprint(os.Getpid()), "$HOST", w.host,
	).Replace(a.code)
	if len(a.natives) > 0 {
		s = w.native
	}
	out, calls := w.execute(t, s, runs.Request{Code: code, User: user, Session: session, Timeout: a.timeout()})
	if err := a.check(w.kind, kindOf(out), out.Output); err != nil {
		t.Errorf("%s %v: %+v", a.name, err, out.Error)
	}
	if !slices.Equal(calls, a.calls) {
		t.Errorf("%s: the server got %q, want %q", a.name, calls, a.calls)
	}
	if out.Calls != a.made {
		t.Errorf("%s made %d tool calls, want %d", a.name, out.Calls, a.made)
	}
	if logs := texts(out.Logs); !a.anyLog && !slices.Equal(logs, a.logs) {
		t.Errorf("%s logged %q, want %q", a.name, logs, a.logs)
	}
	w.recorded(t, s, out)
}

// recorded checks that the journal of a run agrees with its outcome and contains no secret.
func (w *world) recorded(t testing.TB, s *runs.Service, out *run.Outcome) {
	t.Helper()
	records, err := s.Journal(t.Context(), out.RunID)
	if err == nil {
		err = journal.Check(records)
	}
	var again *run.Outcome
	if err == nil {
		again, err = run.Recorded(records)
	}
	if err != nil {
		t.Errorf("the journal: %v", err)
		return
	}
	if again.Status != out.Status || kindOf(again) != kindOf(out) || !bytes.Equal(again.Output, out.Output) || again.Calls != out.Calls ||
		!slices.Equal(again.Logs, out.Logs) {
		t.Errorf("the journal says %+v, the outcome is %+v", again, out)
	}
	for _, r := range records {
		if r.Start != nil && (r.Start.User == "" || r.Start.Run != out.RunID) {
			t.Errorf("the journal begins with %+v", r.Start)
		}
	}
	if text, err := json.Marshal(records); err != nil || bytes.Contains(text, []byte(secret)) {
		t.Error("the program got a secret of the host")
	}
}

// bystander starts a run of another user that waits for a call, and returns its id. end lets the call return, and checks how the run ends.
func (w *world) bystander(t *testing.T) (id string, end func()) {
	t.Helper()
	id = fmt.Sprint("run_beside_", w.bystanders.Add(1))
	hold, held := make(chan struct{}), make(chan struct{})
	w.mu.Lock()
	w.hold, w.held = hold, held
	w.mu.Unlock()
	ended := make(chan *run.Outcome, 1)
	go func() {
		out, err := w.runs.Execute(t.Context(), runs.Request{
			ID: id, User: "ann", Session: "s",
			Code: `const held = await tools.up.hold({ n: 1 }); console.log('on'); return [held, await tools.up.read({ n: 2 })]`,
		})
		if err != nil {
			t.Error(err)
		}
		ended <- out
	}()
	<-held
	return id, func() {
		close(hold)
		out := <-ended
		if out == nil {
			return
		}
		if string(out.Output) != `[{"n":1},{"n":2}]` || !slices.Equal(texts(out.Logs), []string{"on"}) || out.Calls != 2 {
			t.Errorf("the bystander's run ended as %+v, %+v", out, out.Error)
		}
	}
}

// ordinary executes a harmless program and checks its outcome.
func (w *world) ordinary(t *testing.T, user string) {
	t.Helper()
	out, calls := w.execute(t, w.runs, runs.Request{User: user, Session: "s", Code: `
const file = '/workspace/of.txt'
const before = await fs.exists(file) ? await fs.readFile(file, 'utf8') : '` + user + `'
await fs.writeFile(file, '` + user + `')
return [before, typeof leak, Object.keys(Object.prototype), [1, 2].map((n) => n * 2), (await tools.up.read({ user: '` + user + `' })).user]`})
	if want := fmt.Sprintf(`["%s","undefined",[],[2,4],"%[1]s"]`, user); out.Error != nil || string(out.Output) != want {
		t.Errorf("the next run of %s returned %s, want %s; %+v", user, out.Output, want, out.Error)
	}
	if want := []string{`read {"user":"` + user + `"}`}; !slices.Equal(calls, want) {
		t.Errorf("the next run of %s called %q", user, calls)
	}
}

func texts(logs []run.Log) (all []string) {
	for _, l := range logs {
		all = append(all, l.Text)
	}
	return all
}
