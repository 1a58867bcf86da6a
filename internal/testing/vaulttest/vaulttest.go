// Package vaulttest has tests that every vault must pass. Only tests import it.
package vaulttest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/testing/generated"
)

// Place is one place where vaults store. Each call returns a vault at this place, as a further process would open it. The vault is closed at the
// end of the test.
type Place func(t testing.TB) pii.Vault

// Options has what a vault leaves to other parts.
type Options struct {
	// Delete deletes a session if Vault.Delete leaves that to a store.
	Delete func(t testing.TB, v pii.Vault, s pii.Scope)
}

// Exercise tests a vault. place returns an empty place.
func Exercise(t *testing.T, o Options, place func(t testing.TB) Place) {
	for name, test := range map[string]func(*testing.T, *suite){
		"Empty":          empty,
		"RoundTrip":      roundTrip,
		"Scopes":         scopes,
		"Concurrent":     concurrent,
		"Conflicts":      conflicts,
		"RacingHandles":  racingHandles,
		"Since":          since,
		"Processes":      processes,
		"Delete":         deletion,
		"Stats":          stats,
		"Totals":         totals,
		"Contexts":       contexts,
		"CallerMayReuse": callerMayReuse,
		"Volume":         volume,
	} {
		t.Run(name, func(t *testing.T) {
			if name != "Volume" { // Volume measures time
				t.Parallel()
			}
			test(t, &suite{o, place(t)})
		})
	}
}

type suite struct {
	Options
	open Place
}

var session = pii.Scope{User: "alice", Session: "sess_1"}

// token returns the entry of a new token.
func token(typ string, n int, value, origin string) pii.Entry {
	key := sha256.Sum256([]byte(typ + "\x00" + value))
	return pii.Entry{Type: typ, N: n, Key: key[:16], Sealed: []byte("\x00\xff sealed " + value), Origin: origin}
}

// origin returns the entry of a further origin of a token.
func origin(typ string, n int, from string) pii.Entry {
	return pii.Entry{Type: typ, N: n, Origin: from}
}

func load(t testing.TB, v pii.Vault, s pii.Scope) pii.Loaded {
	t.Helper()
	loaded, err := v.Load(t.Context(), s)
	if err != nil {
		t.Fatalf("load %v: %v", s, err)
	}
	if loaded.First < 1 {
		t.Fatalf("new tokens may have the number %d", loaded.First)
	}
	return loaded
}

func add(t testing.TB, v pii.Vault, s pii.Scope, entries ...pii.Entry) {
	t.Helper()
	if err := v.Add(t.Context(), s, entries); err != nil {
		t.Fatalf("add %d entries to %v: %v", len(entries), s, err)
	}
}

func flush(t testing.TB, v pii.Vault) {
	t.Helper()
	if err := v.Sync(t.Context()); err != nil {
		t.Fatalf("sync: %v", err)
	}
}

func wantEntries(t testing.TB, got, want []pii.Entry) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func (s *suite) delete(t testing.TB, v pii.Vault, scope pii.Scope) {
	t.Helper()
	if s.Delete != nil {
		s.Delete(t, v, scope)
	}
	if err := v.Delete(t.Context(), scope); err != nil {
		t.Fatalf("delete %v: %v", scope, err)
	}
}

// empty tests that a session without entries is empty, before and after it was loaded.
func empty(t *testing.T, s *suite) {
	v := s.open(t)
	for range 2 {
		if loaded := load(t, v, session); len(loaded.Entries) != 0 || loaded.Tokens != 0 || loaded.Bytes != 0 {
			t.Errorf("an empty session is %+v", loaded)
		}
		add(t, v, session)
		flush(t, v)
	}
	types, err := v.Stats(t.Context(), session.User, session.Session)
	if err != nil || len(types) != 0 {
		t.Errorf("counts of an empty session: %v, %v", types, err)
	}
}

// roundTrip tests that entries are loaded unchanged and in their order, also by another process.
func roundTrip(t *testing.T, s *suite) {
	v := s.open(t)
	n := load(t, v, session).First
	long := token("IBAN", n, string(slices.Repeat([]byte("long "), 4000)), "file")
	batches := [][]pii.Entry{
		{token("PHONE", n+1, "b", "task"), token("EMAIL", n, "a", "crm__search")},
		{origin("EMAIL", n, "mailer__list")},
		{token("CREDIT_CARD", n, "c", ""), origin("PHONE", n+1, "file"), token("CREDIT_CARD", n+7, "d", "program é \x00")},
		{long, token("employee_id", n, "", "task")},
	}
	var want []pii.Entry
	for i, batch := range batches {
		add(t, v, session, batch...)
		want = append(want, batch...)
		if i%2 == 0 {
			wantEntries(t, load(t, v, session).Entries, want)
		}
	}
	flush(t, v)
	wantEntries(t, load(t, v, session).Entries, want)
	wantEntries(t, load(t, s.open(t), session).Entries, want)
}

// scopes tests that sessions are separate, even if user and session joined give the same text.
func scopes(t *testing.T, s *suite) {
	v := s.open(t)
	all := []pii.Scope{{User: "ab", Session: "c"}, {User: "a", Session: "bc"}, {User: "a", Session: "c"}, {User: "a:b", Session: "c"}, {User: "a", Session: "b:c"}, {User: "{a}", Session: "*"}, {User: "alice@example.com", Session: "c"}}
	for i, scope := range all {
		first := load(t, v, scope)
		if len(first.Entries) != 0 {
			t.Errorf("%q has entries of another session: %+v", scope, first.Entries)
		}
		add(t, v, scope, token("EMAIL", first.First, fmt.Sprint("value ", i), "task"), token("PHONE", first.First, "the same", "task"))
	}
	for i, scope := range all {
		entries := load(t, v, scope).Entries
		if len(entries) != 2 || string(entries[0].Sealed) != string(token("", 0, fmt.Sprint("value ", i), "").Sealed) {
			t.Errorf("%q has %+v", scope, entries)
		}
	}
}

// concurrent tests that several goroutines can add entries to one vault, and that the entries of each keep their order.
func concurrent(t *testing.T, s *suite) {
	v := s.open(t)
	other := pii.Scope{User: session.User, Session: "sess_2"}
	first := load(t, v, session).First
	load(t, v, other)
	const writers, batches, size = 8, 10, 5
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			scope := session
			if w%2 == 1 {
				scope = other
			}
			for b := range batches {
				var entries []pii.Entry
				for i := range size {
					n := (w*batches+b)*size + i
					entries = append(entries, token("EMAIL", first+n, fmt.Sprint(n), fmt.Sprint(w)))
				}
				if err := v.Add(t.Context(), scope, entries); err != nil {
					t.Errorf("writer %d: %v", w, err)
				}
				loaded, err := v.Load(t.Context(), scope)
				if err != nil || len(loaded.Entries)%size != 0 {
					t.Errorf("writer %d loads %d entries, %v", w, len(loaded.Entries), err)
				}
			}
		})
	}
	wg.Wait()
	for _, scope := range []pii.Scope{session, other} {
		loaded := load(t, v, scope)
		if len(loaded.Entries) != writers/2*batches*size || loaded.Tokens != writers*batches*size {
			t.Errorf("%v has %d entries, the user %d tokens", scope, len(loaded.Entries), loaded.Tokens)
		}
		last := map[string]int{}
		for _, e := range loaded.Entries {
			if e.N < last[e.Origin] {
				t.Errorf("the entries of writer %s changed their order", e.Origin)
			}
			last[e.Origin] = e.N
		}
	}
}

// conflicts tests that two processes cannot give a token two meanings. Either the second process gets a conflict and none of its additions are
// stored, or each process has its own numbers.
func conflicts(t *testing.T, s *suite) {
	a, b := s.open(t), s.open(t)
	n, m := load(t, a, session).First, load(t, b, session).First
	mine := token("EMAIL", n, "a", "task")
	add(t, a, session, mine)
	flush(t, a)
	want := []pii.Entry{mine}
	for _, batch := range [][]pii.Entry{
		{token("PHONE", m, "p", "task"), token("EMAIL", m, "b", "task"), token("PHONE", m+1, "q", "task")}, // possibly the token that a has used
		{token("PHONE", m+2, "r", "task"), token("EMAIL", m+2, "a", "task"), origin("PHONE", m+2, "file")}, // the value that a has added
	} {
		err := b.Add(t.Context(), session, batch)
		switch {
		case err == nil && n == m && batch[1].N == n:
			t.Errorf("[EMAIL_%d] has two meanings", n)
		case err == nil:
			want = append(want, batch...)
		case !errors.Is(err, pii.ErrConflict):
			t.Errorf("got %v, want a conflict", err)
		}
		flush(t, b)
		wantEntries(t, load(t, a, session).Entries, want)
		wantEntries(t, load(t, b, session).Entries, want) // b loads the same as a
	}
	m = max(m, n) + 10
	add(t, b, session, token("EMAIL", m, "new", "task"), origin("EMAIL", n, "file"))
	flush(t, b)
	if got := load(t, a, session).Entries; len(got) != len(want)+2 {
		t.Errorf("%d entries, want %d", len(got), len(want)+2)
	}
}

// racingHandles tests that processes agree on tokens if they add the same values at the same time and load again after a conflict.
func racingHandles(t *testing.T, s *suite) {
	const handles, values = 4, 20
	var wg sync.WaitGroup
	for h := range handles {
		v := s.open(t)
		wg.Go(func() {
			for i := range values {
				if err := addValue(t.Context(), v, fmt.Sprint("value ", i), fmt.Sprint(h)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	tokens, meanings := map[string]bool{}, map[string]int{}
	for _, e := range load(t, s.open(t), session).Entries {
		name := fmt.Sprint(e.Type, e.N)
		if tokens[name] {
			t.Errorf("%s has two meanings", name)
		}
		tokens[name] = true
		meanings[string(e.Sealed)]++
	}
	if len(meanings) != values {
		t.Errorf("%d values are stored, want %d", len(meanings), values)
	}
}

// addValue gives a value a token unless it has one.
func addValue(ctx context.Context, v pii.Vault, value, origin string) error {
	for range 1000 {
		loaded, err := v.Load(ctx, session)
		if err != nil {
			return err
		}
		n := loaded.First
		e := token("EMAIL", n, value, origin)
		for _, old := range loaded.Entries {
			if string(old.Key) == string(e.Key) {
				return nil
			}
			n = max(n, old.N+1)
		}
		e.N = n
		if err := v.Add(ctx, session, []pii.Entry{e}); !errors.Is(err, pii.ErrConflict) {
			return errors.Join(err, v.Sync(ctx))
		}
	}
	return errors.New("conflicts do not end")
}

// deletion tests that a deleted session is empty and can be used again, and that other sessions stay.
func deletion(t *testing.T, s *suite) {
	v := s.open(t)
	all := []pii.Scope{session, {User: "alice", Session: "sess_2"}, {User: "bob", Session: "sess_1"}}
	for _, scope := range all {
		n := load(t, v, scope).First
		add(t, v, scope, token("EMAIL", n, "a", "task"), origin("EMAIL", n, "file"))
	}
	flush(t, v)
	s.delete(t, v, session)
	s.delete(t, v, pii.Scope{User: "nobody", Session: "sess_1"})
	for i, handle := range []pii.Vault{v, s.open(t)} {
		loaded := load(t, handle, session)
		if len(loaded.Entries) != 0 || loaded.Tokens != 1 {
			t.Errorf("handle %d has %d entries and %d tokens of a deleted session", i, len(loaded.Entries), loaded.Tokens-1)
		}
		if types, err := handle.Stats(t.Context(), session.User, session.Session); err != nil || len(types) != 0 {
			t.Errorf("handle %d counts %v in a deleted session, %v", i, types, err)
		}
		for _, scope := range all[1:] {
			if got := len(load(t, handle, scope).Entries); got != 2 {
				t.Errorf("%v has %d entries", scope, got)
			}
		}
	}
	again := token("EMAIL", load(t, v, session).First, "a", "again")
	add(t, v, session, again)
	wantEntries(t, load(t, v, session).Entries, []pii.Entry{again})
}

// stats tests that tokens are counted by type, and that origins are not counted.
func stats(t *testing.T, s *suite) {
	v := s.open(t)
	second := pii.Scope{User: "alice", Session: "sess_2"}
	for _, scope := range []pii.Scope{session, second, {User: "bob", Session: "sess_1"}} {
		n := load(t, v, scope).First
		add(t, v, scope,
			token("EMAIL", n, "a", "task"), token("EMAIL", n+1, "b", "task"), origin("EMAIL", n, "file"),
			token("CREDIT_CARD", n, "c", "task"), token("CREDIT", n, "d", "task"), token("employee_id", n, "e", "task"), token("X_1", n, "f", "task"))
	}
	n := load(t, v, second).First
	add(t, v, second, token("CREDIT_CARD", n+1, "g", "task"), origin("CREDIT_CARD", n, "file"))
	flush(t, v)
	for scope, want := range map[pii.Scope]map[string]int64{
		session:                             {"EMAIL": 2, "CREDIT_CARD": 1, "CREDIT": 1, "employee_id": 1, "X_1": 1},
		second:                              {"EMAIL": 2, "CREDIT_CARD": 2, "CREDIT": 1, "employee_id": 1, "X_1": 1},
		{User: "alice"}:                     {"EMAIL": 4, "CREDIT_CARD": 3, "CREDIT": 2, "employee_id": 2, "X_1": 2},
		{User: "alice", Session: "none"}:    {},
		{User: "nobody"}:                    {},
		{User: "nobody", Session: "sess_1"}: {},
	} {
		for i, handle := range []pii.Vault{v, s.open(t)} {
			got, err := handle.Stats(t.Context(), scope.User, scope.Session)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
				t.Errorf("handle %d, %v: %v\n%s", i, scope, err, diff)
			}
		}
	}
}

// totals tests that Load returns the totals of all sessions of a user.
func totals(t *testing.T, s *suite) {
	v := s.open(t)
	var bytes, tokens int64
	for i := range 5 {
		scope := pii.Scope{User: "alice", Session: fmt.Sprint("sess_", i)}
		n := load(t, v, scope).First
		var entries []pii.Entry
		for j := range 10 * i {
			e := token("EMAIL", n+j, fmt.Sprint(i, j), "task")
			entries = append(entries, e, origin("EMAIL", n+j, "file"))
			bytes, tokens = bytes+int64(len(e.Sealed)), tokens+1
		}
		add(t, v, scope, entries...)
		flush(t, v)
		for _, handle := range []pii.Vault{v, s.open(t)} {
			for _, of := range []pii.Scope{scope, {User: "alice", Session: "new"}} {
				if got := load(t, handle, of); got.Tokens != tokens || got.Bytes != bytes {
					t.Errorf("%v: the user has %d tokens of %d bytes, want %d of %d", of, got.Tokens, got.Bytes, tokens, bytes)
				}
			}
		}
	}
	if got := load(t, v, pii.Scope{User: "bob", Session: "sess_1"}); got.Tokens != 0 || got.Bytes != 0 {
		t.Errorf("another user has %d tokens of %d bytes", got.Tokens, got.Bytes)
	}
}

// contexts tests that calls fail and store nothing if their context has ended.
func contexts(t *testing.T, s *suite) {
	v := s.open(t)
	n := load(t, v, session).First
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, loadErr := v.Load(ctx, session)
	_, statsErr := v.Stats(ctx, session.User, "")
	addErr := v.Add(ctx, session, []pii.Entry{token("EMAIL", n, "a", "task")})
	for what, err := range map[string]error{"load": loadErr, "count": statsErr, "add": addErr} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", what, err, context.Canceled)
		}
	}
	wantEntries(t, load(t, v, session).Entries, nil)
	add(t, v, session, token("EMAIL", n, "a", "task"))
}

// callerMayReuse tests that changes of the caller's entries after Add have no effect.
func callerMayReuse(t *testing.T, s *suite) {
	v := s.open(t)
	n := load(t, v, session).First
	entries := []pii.Entry{token("EMAIL", n, "a", "task")}
	add(t, v, session, entries...)
	entries[0].Key[0]++
	entries[0].Sealed[0]++
	entries[0] = token("PHONE", n, "b", "task")
	flush(t, v)
	wantEntries(t, load(t, v, session).Entries, []pii.Entry{token("EMAIL", n, "a", "task")})
}

// volume tests that a token is added to a large session, and loaded, as fast as with a small session.
func volume(t *testing.T, s *suite) {
	all := 20_000
	if generated.Long() {
		all = 100_000
	}
	batch, tenth := all/100, all/10
	v := s.open(t)
	n, done := load(t, v, session).First, 0
	adds := func() time.Duration {
		entries := make([]pii.Entry, batch)
		for i := range entries {
			entries[i] = token("EMAIL", n+done+i, fmt.Sprintf("user%d@example.com", done+i), "crm__search")
		}
		began := time.Now()
		add(t, v, session, entries...)
		done += batch
		return time.Since(began) / time.Duration(batch)
	}
	loads := func() time.Duration {
		began := time.Now()
		loaded := load(t, v, session)
		took := time.Since(began) / time.Duration(done)
		if len(loaded.Entries) != done || loaded.Tokens != int64(done) || loaded.Entries[done-1].N != n+done-1 {
			t.Fatalf("%d entries, %d tokens, want %d", len(loaded.Entries), loaded.Tokens, done)
		}
		return took
	}
	adding := repeat(tenth/batch, adds)
	flush(t, v)
	loading := repeat(5, loads)
	for done < all {
		adds()
	}
	linear(t, "adding a token", median(adding), adds)
	flush(t, v)
	linear(t, "loading a token", median(loading), loads)
}

func repeat(n int, f func() time.Duration) (took []time.Duration) {
	for range n {
		took = append(took, f())
	}
	return took
}

// linear fails unless an operation takes at most five times as long in a full session as in a small one: if its time grew with the session's
// tokens, it would take ten times as long. It tries again, since a busy machine makes some of the times longer, but not all.
func linear(t *testing.T, what string, small time.Duration, again func() time.Duration) {
	t.Helper()
	bound, full := 5*max(small, time.Microsecond), again()
	for tries := 1; full > bound && tries < 100; tries++ {
		full = min(full, again())
	}
	t.Logf("%s takes %v, in the full session %v", what, small, full)
	if full > bound {
		t.Errorf("%s takes %v in a small session and %v in a full one", what, small, full)
	}
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}
