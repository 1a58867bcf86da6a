package wiring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/wiring"
)

// remembering is an upstream whose tool read answers what the tool put has stored. It counts reads of each key.
func remembering(t *testing.T) (up *upstream, reads func() int) {
	t.Helper()
	up = newUpstream(t, "kv")
	var mu sync.Mutex
	values, read := map[string]int{}, 0
	up.on = func(_ context.Context, tool, _ string, args json.RawMessage) (string, error) {
		var in struct {
			K string
			V int
		}
		if err := json.Unmarshal(args, &in); err != nil {
			return "", err
		}
		mu.Lock()
		defer mu.Unlock()
		if tool == "read" {
			read++
		} else {
			values[in.K] = in.V
		}
		text, err := json.Marshal(map[string]any{"k": in.K, "v": values[in.K], "owner": in.K + "@acme.com"})
		return string(text), err
	}
	return up, func() int {
		mu.Lock()
		defer mu.Unlock()
		return read
	}
}

// keepingPolicy keeps the answers of kv.
func keepingPolicy(t *testing.T) *policy.Policy {
	t.Helper()
	open := true
	p, err := policy.New([]policy.Rule{{Tools: []string{"kv__*"}, When: policy.When{OpenWorld: &open}, Cache: "5m", Action: policy.Allow}}, "", nil, policy.Servers{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// storing is a program that reads and writes random keys, one after the other and together.
func storing(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var code strings.Builder
	code.WriteString("const got = []\n")
	key := func() string { return string(rune('a' + r.IntN(3))) }
	for range 8 {
		switch r.IntN(4) {
		case 0:
			fmt.Fprintf(&code, "got.push(await tools.kv.put({k: '%s', v: %d}))\n", key(), r.IntN(100))
		case 1:
			fmt.Fprintf(&code, "got.push(...await Promise.all(['%s', '%s', '%s'].map((k) => tools.kv.read({k}))))\n", key(), key(), key())
		default:
			fmt.Fprintf(&code, "got.push(await tools.kv.read({k: '%s'}))\n", key())
		}
	}
	return code.String() + "return got\n"
}

var mailToken = regexp.MustCompile(`pii_\w+@`)

// inOrder numbers the tokens of an output in the order in which they stand there. Answers that come at the same time get theirs in any order.
func inOrder(output json.RawMessage) string {
	seen := map[string]string{}
	return mailToken.ReplaceAllStringFunc(string(output), func(token string) string {
		if seen[token] == "" {
			seen[token] = fmt.Sprint("token ", len(seen)+1)
		}
		return seen[token]
	})
}

// TestKeptAnswers: programs have the same output with kept answers and without, in two processes on one store that take turns, and when they are replayed.
// Another user gets no kept answer.
func TestKeptAnswers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain, plainReads := remembering(t)
	kept, keptReads := remembering(t)
	without := openIn(t, t.TempDir(), nil, wiring.Outside{}, plain.entry)
	with := []*fixture{
		openIn(t, dir, nil, wiring.Outside{Policy: keepingPolicy(t)}, kept.entry), openIn(t, dir, nil, wiring.Outside{Policy: keepingPolicy(t)}, kept.entry),
	}
	given := 0
	for n := range 30 {
		request := runs.Request{Code: storing(uint64(n)), User: "ann", Session: fmt.Sprintf("s%d", n)}
		want, err := without.Runs().Execute(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		f := with[n%2]
		got, err := f.Runs().Execute(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if inOrder(got.Output) != inOrder(want.Output) || strings.Contains(string(got.Output), "@acme.com") {
			t.Errorf("program %d:\n%s\ngot  %s\nwant %s", n, request.Code, got.Output, want.Output)
		}
		before := keptReads()
		f.replay(got)
		if keptReads() != before {
			t.Error("the replay asked the server")
		}
		calls, _, err := f.Runs().Calls(t.Context(), got.RunID, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range calls {
			if c.Kept != nil {
				given++
			}
		}
	}
	if keptReads()+given != plainReads() || given < 20 {
		t.Errorf("%d reads without kept answers; with them %d, and %d answers were kept", plainReads(), keptReads(), given)
	}
	before := keptReads()
	for _, user := range []string{"bob", "bob", "ann"} {
		if _, err := with[0].Runs().Execute(t.Context(), runs.Request{Code: "return await tools.kv.read({k: 'new'})", User: user, Session: "s"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := keptReads() - before; got != 2 {
		t.Errorf("three calls of two users are %d reads", got)
	}
	if !slices.ContainsFunc(kept.called(), func(call string) bool { return strings.HasPrefix(call, "put") }) {
		t.Error("nothing was written")
	}
}
