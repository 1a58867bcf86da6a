package simulation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/simulation"
)

// Tokens in recorded answers are counted by tool, field and type, each token once per session.
func TestHidden(t *testing.T) {
	t.Parallel()
	h := &history{}
	deep := strings.Repeat(`{"a":[`, 8) + `"[EMAIL_9]"` + strings.Repeat(`]}`, 8)
	h.add("run_0", "s", [3]string{"crm__get", `{}`, `[{"email":"[EMAIL_1]","id":1},{"email":"[EMAIL_2]","about":{"by":"[EMAIL_1] and [PII_PHONE_1]"},"ok":true}]`},
		[3]string{"crm__get", `{"q":"[EMAIL_7]"}`, `[{"email":"[EMAIL_1]"},[],{}]`}, [3]string{"mail__send", `{}`, `"[EMAIL_3]"`})
	h.add("run_1", "", [3]string{"crm__get", `{}`, `[{"email":"[EMAIL_1]","[EMAIL_4]":"[EMAIL_5]"}]`}, [3]string{"gone__tool", `{}`, deep}, [3]string{"crm__get", `{}`, `"no [1] token [x_1]"`})
	got, err := h.source(simulation.Bounds{}).Hidden(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range got.Fields {
		lines = append(lines, fmt.Sprintf("%s %s %s %d %d", f.Tool, f.Field, f.Type, f.Tokens, f.Calls))
	}
	want := []string{
		"crm__get $[*].email EMAIL 3 3", "crm__get $[*].… EMAIL 2 1", "crm__get $[*].about.by EMAIL 1 1", "crm__get $[*].about.by PHONE 1 1",
		"gone__tool $.a[*].a[*].a[*].a[*]… EMAIL 1 1", "mail__send $ EMAIL 1 1",
	}
	if !slices.Equal(lines, want) || got.Runs != 2 || got.Calls != 6 || got.Truncated {
		t.Errorf("fields: %q, %+v", lines, got.Looked)
	}
	if got, err = h.source(simulation.Bounds{Runs: 1, Bytes: 10}).Hidden(t.Context(), 1); err != nil || got.Runs != 0 || len(got.Unread) != 2 || !got.Truncated {
		t.Errorf("with bounds: %+v, %v", got, err)
	}
	if got, err = h.source(simulation.Bounds{}).Hidden(t.Context(), 2); err != nil || len(got.Fields) != 2 || got.More != 4 {
		t.Errorf("the first: %+v, %v", got, err)
	}
}
