package wiring_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
}
