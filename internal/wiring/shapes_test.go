package wiring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/runs"
)

// The structure of answers is learned without their contents. After a restart it is known to the user of the answers, and to no other user. A replay learns
// nothing.
func TestLearnedShapes(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	up.on = func(context.Context, string, string, json.RawMessage) (string, error) {
		return `{"items":[{"id":"cus_8842","email":"` + value + `"}],"owners":{"` + value + `":{"id":"Zebulon"},"Zebulon":{"id":"x"}}}`, nil
	}
	dir := t.TempDir()
	learned := func(f *fixture, user string) string {
		f.EnsureTools(t.Context(), "")
		d, err := f.Catalog().For(user).Details("up__read")
		if err != nil {
			t.Fatal(err)
		}
		if d.Learned == nil {
			return ""
		}
		return string(d.Learned.Schema) + d.TypeScript
	}
	var before string
	t.Run("learn", func(t *testing.T) {
		f := open(t, dir, nil, up.entry)
		if text := learned(f, "ann"); text != "" {
			t.Errorf("something is known before the first call: %s", text)
		}
		f.exec(runs.Request{Code: `return await callMCPTool('up__read', {})`, User: "ann"}) // exec also replays the run.
		for user, want := range map[string]bool{"ann": true, "ben": false} {
			out := f.exec(runs.Request{User: user, Code: `const d = await get_mcp_tool_details('up__read')
				return JSON.stringify(d) + require('fs').readFileSync('./servers/up/read.ts', 'utf8') + require('fs').readFileSync('./servers/up/index.ts', 'utf8')`})
			if out.Error != nil || strings.Count(string(out.Output), "owners: ") != map[bool]int{true: 4, false: 0}[want] {
				t.Errorf("a program of %s sees %s, %+v", user, out.Output, out.Error)
			}
			if text := learned(f, user); (text != "") != want {
				t.Errorf("%s sees %s", user, text)
			}
		}
		if before = learned(f, "ann"); !strings.Contains(before, `"email"`) || !strings.Contains(before, "owners: { [key: string]: {") {
			t.Errorf("not learned: %s", before)
		}
	})
	t.Run("restart", func(t *testing.T) {
		f := open(t, dir, nil, up.entry)
		if after := learned(f, "ann"); after != before {
			t.Errorf("after a restart %s, before %s", after, before)
		}
		raw, err := os.ReadFile(filepath.Join(f.cfg.StateDir, "shapes.json"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(raw), `"answers":1,`) != 1 {
			t.Errorf("not one answer of one tool is kept: %s", raw)
		}
		for _, data := range []string{"grace", "hopper", "8842", "Zebulon", "EMAIL_"} {
			if strings.Contains(string(raw)+before, data) {
				t.Errorf("%s is kept: %s", data, raw)
			}
		}
	})
	t.Run("off", func(t *testing.T) {
		f := open(t, dir, map[string]string{"learning.shapes": "false"}, up.entry)
		f.exec(runs.Request{Code: `return await callMCPTool('up__read', {})`, User: "ann"})
		if text := learned(f, "ann"); text != "" {
			t.Errorf("it is off, and known is %s", text)
		}
	})
}

// If a user's programs call a tool after a search, the user's later searches find that tool, even those of a client's model. Searches of other users do not.
func TestLearnedSearches(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	up.on = func(context.Context, string, string, json.RawMessage) (string, error) { return `{}`, nil }
	const program = `await search_mcp_tools('feed the zebras'); await callMCPTool('up__read', {}); return (await search_mcp_tools('zebras to feed', {detail: 'name'})).includes('up__read')`
	for _, c := range []struct {
		flags map[string]string
		want  bool
	}{{nil, true}, {map[string]string{"learning.searches": "false"}, false}} {
		f := setup(t, c.flags, up.entry)
		if out := f.exec(runs.Request{Code: program, User: "ann"}); out.Error != nil || string(out.Output) != fmt.Sprint(c.want) {
			t.Errorf("%v: found: %s, %+v", c.flags, out.Output, out.Error)
		}
		names := func(user string) (names []string) {
			for _, h := range f.Catalog().Search(t.Context(), user, "feed a zebra", 10) {
				names = append(names, h.Name)
			}
			return names
		}
		if got := names("ann"); slices.Contains(got, "up__read") != c.want {
			t.Errorf("%v: the same user's search gives %v", c.flags, got)
		}
		if got := names("ben"); len(got) != 0 {
			t.Errorf("%v: another user's search gives %v", c.flags, got)
		}
	}
}
