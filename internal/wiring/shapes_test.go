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

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/runs"
)

// What answers look like is learned, without what they say, and known after a restart; a replay learns nothing.
func TestLearnedShapes(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, "up")
	up.on = func(context.Context, string, string, json.RawMessage) (string, error) {
		return `{"items":[{"id":"cus_8842","email":"` + value + `"}],"owners":{"` + value + `":{"id":"Zebulon"},"Zebulon":{"id":"x"}}}`, nil
	}
	dir := t.TempDir()
	learned := func(f *fixture) string {
		f.EnsureTools(t.Context())
		d, err := f.Catalog().Details("up__read")
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
		if text := learned(f); text != "" {
			t.Errorf("something is known before the first call: %s", text)
		}
		f.value(`return await callMCPTool('up__read', {})`, nil) // and its replay
		if before = learned(f); !strings.Contains(before, `"email"`) || !strings.Contains(before, "owners: { [key: string]: {") {
			t.Errorf("not learned: %s", before)
		}
		if kept := f.Catalog().KeptShapes(); len(kept) != 1 || kept[0].Answers != 1 {
			t.Errorf("%+v", kept)
		}
	})
	t.Run("restart", func(t *testing.T) {
		f := open(t, dir, nil, up.entry)
		if after := learned(f); after != before {
			t.Errorf("after a restart %s, before %s", after, before)
		}
		raw, err := os.ReadFile(filepath.Join(f.cfg.StateDir, "shapes.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, data := range []string{"grace", "hopper", "8842", "Zebulon", "EMAIL_"} {
			if strings.Contains(string(raw)+before, data) {
				t.Errorf("%s is kept: %s", data, raw)
			}
		}
	})
	t.Run("off", func(t *testing.T) {
		f := open(t, dir, map[string]string{"learning.shapes": "false"}, up.entry)
		f.value(`return await callMCPTool('up__read', {})`, nil)
		if text := learned(f); text != "" {
			t.Errorf("it is off, and known is %s", text)
		}
	})
}

// What a user's programs call after a search comes up in the user's later searches, also those of a client's model; not in another user's.
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
			for _, h := range f.Catalog().Search(catalog.WithUser(t.Context(), user), "feed a zebra", 10) {
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
