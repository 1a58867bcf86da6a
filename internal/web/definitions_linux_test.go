package web_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/approval"
)

// reviewed returns a server where people confirm definitions with security keys. A definition of its MCP server moody is held.
func reviewed(t testing.TB) *world {
	w := confirmed(t, "  moody: {url: \"%[2]s/moody\"}", "quarantine: new", "server: {rateLimit: {enabled: false}}")
	w.api(w.token, "GET", "/v1/tools", nil, nil) // connects the MCP servers
	w.eventually("a definition is held", func() bool { return w.server("moody").Held > 0 && w.server("notes").Held > 0 })
	return w
}

// says changes the definitions of moody, and waits until the new one is held.
func (w *world) says(mood string) {
	w.t.Helper()
	w.tools.change(mood)
	w.reconnects("moody")
	w.eventually("the definition is held", func() bool {
		return slices.ContainsFunc(w.review(w.token, "moody").Held, func(h approval.Held) bool {
			return h.Seen.Tool == "tell" && strings.HasSuffix(h.Seen.Description, mood)
		})
	})
}

// reconnects connects to an MCP server again, which then lists its tools.
func (w *world) reconnects(server string) {
	w.t.Helper()
	if got := w.api(w.token, "POST", "/v1/servers/"+server+"/reconnect", struct{}{}, nil); got != http.StatusOK {
		w.t.Fatalf("reconnect: %d", got)
	}
}

func (w *world) review(token, server string) (all api.Review) {
	w.t.Helper()
	w.api(token, "GET", "/v1/servers/"+server+"/review", nil, &all)
	return all
}

// held returns the held definitions of a server, in the form of a review request.
func (w *world) held(token, server string) []map[string]string {
	w.t.Helper()
	all := []map[string]string{}
	for _, h := range w.review(token, server).Held {
		all = append(all, map[string]string{"tool": h.Seen.Tool, "hash": h.Hash})
	}
	return all
}

// TestDefinitionAttacks checks an attacker with the local token who can send requests and write into the database. Answers of a person's key that are for
// something else approve no definition. The person's own answer approves the definitions that the person saw.
func TestDefinitionAttacks(t *testing.T) {
	t.Parallel()
	w := reviewed(t)
	w.says("one")
	k := w.registered(w.token)
	ask := func(server string) (q api.Question) {
		t.Helper()
		if got := w.api(w.token, "POST", "/v1/servers/"+server+"/review/questions", map[string]any{"origin": w.url, "approve": w.held(w.token, server)}, &q); got != http.StatusOK {
			t.Fatalf("ask about %s: %d", server, got)
		}
		return q
	}
	answer := func(path string, q api.Question, challenge string, k *softKey) (int, string) {
		t.Helper()
		return w.refusedAPI(w.token, path, map[string]any{"batch": q.Batch, "credential": k.get(challenge, w.url)})
	}
	const answers = "/v1/servers/moody/review/answers"
	q := ask("moody")
	none := []api.SeenRequest{}
	for name, c := range map[string]struct {
		attack func() (int, string)
		why    string
	}{
		"no answer": {func() (int, string) {
			return w.refusedAPI(w.token, "/v1/servers/moody/review", map[string]any{"approve": w.held(w.token, "moody")})
		}, "a person approves this"},
		"a key of the attacker": {func() (int, string) { return answer(answers, ask("moody"), q.PublicKey.Challenge, newSoftKey(t)) }, "no security key of this caller"},
		"the answer for another question": {func() (int, string) {
			return answer(answers, ask("moody"), ask("moody").PublicKey.Challenge, k)
		}, "for something else"},
		"the answer for another server": {func() (int, string) {
			other := ask("notes")
			return answer(answers, other, other.PublicKey.Challenge, k)
		}, "for another server"},
		"the answer for definitions as one for calls": {func() (int, string) {
			other := ask("moody")
			return answer("/v1/approvals/answers", other, other.PublicKey.Challenge, k)
		}, "has not asked this"},
		"a question that the attacker has made": {func() (int, string) {
			made := ask("moody")
			made.Batch = strings.Replace(made.Batch, made.Batch[10:14], "AAAA", 1)
			return answer(answers, made, made.PublicKey.Challenge, k)
		}, "has not asked this"},
		"another page": {func() (int, string) {
			other := ask("moody")
			return w.refusedAPI(w.token, answers, map[string]any{"batch": other.Batch, "credential": k.get(other.PublicKey.Challenge, "http://localhost:1")})
		}, "another address"},
	} {
		if status, why := c.attack(); status != http.StatusForbidden || !strings.Contains(why, c.why) {
			t.Errorf("%s: %d %s", name, status, why)
		}
		if held := w.server("moody").Held; held == 0 {
			t.Fatalf("%s approves", name)
		}
	}
	if status, _ := w.refusedAPI(w.token, "/v1/approvals/questions", map[string]any{"origin": w.url, "requests": none}); status < 400 {
		t.Errorf("a question about nothing: %d", status)
	}
	w.ahead.Add(int64(3 * time.Minute))
	if status, why := answer(answers, q, q.PublicKey.Challenge, k); status != http.StatusForbidden || !strings.Contains(why, "later than") {
		t.Errorf("a late answer: %d %s", status, why)
	}

	// The definition changes between the question and its answer.
	q = ask("moody")
	w.says("two")
	if status, why := answer(answers, q, q.PublicKey.Challenge, k); status != http.StatusConflict || !strings.Contains(why, "changed after it was shown") {
		t.Errorf("a definition that has changed: %d %s", status, why)
	}
	const subject = "definitions by security keys of moody"
	q = ask("moody")
	if status, why := answer(answers, q, q.PublicKey.Challenge, k); status != http.StatusOK {
		t.Fatalf("the person: %d %s", status, why)
	}
	w.eventually("the tool is offered", func() bool { return w.server("moody").Held == 0 })
	approved := w.review(w.token, "moody").Approved
	if len(approved) != 2 || approved[1].By != "local" || approved[1].Tool != "tell" {
		t.Errorf("approved: %+v", approved)
	}
	if status, why := answer(answers, q, q.PublicKey.Challenge, k); status != http.StatusForbidden || !strings.Contains(why, "given before") {
		t.Errorf("an answer that was given before: %d %s", status, why)
	}

	// The stored confirmation approves no other definition, even if somebody edits it.
	w.says("three")
	fresh := w.held(w.token, "moody")[0]["hash"]
	var kept []map[string]any
	stored := w.stored(subject)
	must(t, json.Unmarshal(stored, &kept))
	kept[0]["definitions"].(map[string]any)["tell"] = fresh
	edited, err := json.Marshal(kept)
	must(t, err)
	for name, value := range map[string][]byte{"other definitions": edited, "one without an answer": []byte(`[{"by":"local","definitions":{"tell":"` + fresh + `"}}]`)} {
		w.edit("UPDATE confirmations SET value = ? WHERE subject = ?", value, subject)
		w.edit("UPDATE pins SET approved = seen WHERE server = 'moody'")
		w.restart()
		w.reconnects("moody")
		if !slices.ContainsFunc(w.held(w.token, "moody"), func(d map[string]string) bool { return d["tool"] == "tell" }) {
			t.Errorf("the database with %s approves", name)
		}
	}
}

// TestDefinitionOfRemovedKey checks that a definition approved with a key is offered after a restart, and is held again when the key is removed.
func TestDefinitionOfRemovedKey(t *testing.T) {
	t.Parallel()
	w := reviewed(t)
	k := w.registered(w.token)
	var q api.Question
	w.api(w.token, "POST", "/v1/servers/moody/review/questions", map[string]any{"origin": w.url, "approve": w.held(w.token, "moody")}, &q)
	if status, why := w.refusedAPI(w.token, "/v1/servers/moody/review/answers", map[string]any{"batch": q.Batch, "credential": k.get(q.PublicKey.Challenge, w.url)}); status != http.StatusOK {
		t.Fatalf("%d %s", status, why)
	}
	again := func() int {
		w.restart()
		w.reconnects("moody")
		return w.server("moody").Held
	}
	if held := again(); held != 0 {
		t.Errorf("after a restart %d definitions are held", held)
	}
	var list struct{ SecurityKeys []struct{ Code string } }
	must(t, json.Unmarshal([]byte(w.command("approvals", "security-keys", "list", "--json")), &list))
	w.atTerminal([]string{passphrase}, "approvals", "security-keys", "remove", list.SecurityKeys[0].Code).ends(0)
	if held := again(); held != 2 {
		t.Errorf("with the key removed %d definitions are held", held)
	}
}

// TestBrowserTwoReviewers has two admins with keys of their own look at the same changed definition. One approves it. The other learns who has approved it and
// when, also from the list of approved definitions.
func TestBrowserTwoReviewers(t *testing.T) {
	ctx, other := chromium(t), chromium(t)
	w := reviewed(t)
	first, second := w.keyWithRole("ann", "admin"), w.keyWithRole("bob", "admin")
	w.token = first
	w.says("one")
	must(t, chromedp.Run(ctx))
	must(t, chromedp.Run(other)) // a browser ends with its first context
	authenticator(t, ctx)
	authenticator(t, other)
	w.logInAs(ctx, first)
	w.logInAs(other, second)
	var text string
	does(t, ctx, chromedp.Navigate(w.url+"/servers/moody"), visible("article"), textOf("main", &text))
	if !strings.Contains(text, "security-keys add") || !strings.Contains(text, "harness servers review moody") || strings.Contains(text, "Approve the chosen") {
		t.Errorf("without a key: %s", text)
	}
	w.registers(ctx)
	w.registers(other)
	const choose = "document.querySelectorAll('input[name=approve]').forEach((e) => e.click())"
	// The second page does not update itself, as for a person who acts a moment too late.
	const stays = "document.querySelector('main').removeAttribute('data-live')"
	does(t, other, chromedp.Navigate(w.url+"/servers/moody"), visible("article"), chromedp.Evaluate(stays, nil), chromedp.Evaluate(choose, nil))
	does(t, ctx, chromedp.Navigate(w.url+"/servers/moody"), visible("article"), chromedp.Evaluate(choose, nil), keys("a"), visible(".notice"), gone("article"), textOf("main", &text))
	var ann api.Caller
	w.api(first, "GET", "/v1/me", nil, &ann)
	if w.server("moody").Held != 0 || !strings.Contains(text, "tell, by "+ann.Principal) {
		t.Errorf("the first: %s", text)
	}
	does(t, other, keys("a"), visible("[data-answer]"), textOf("[data-answer]", &text))
	if !strings.Contains(text, "was approved by "+ann.Principal+" at ") {
		t.Errorf("the second: %s", text)
	}
}
