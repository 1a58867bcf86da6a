package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// A check reports what a run of the same program reports before it begins. A check creates no call, run, session or token.
func TestCheckProgram(t *testing.T) {
	t.Parallel()
	for how, setting := range map[string]setting{
		runs.CheckWarn: {}, runs.CheckRefuse: {flags: map[string]string{"sandbox.check": "refuse"}}, runs.CheckOff: {flags: map[string]string{"sandbox.check": "off"}},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			setting.servers = []*config.MCPServer{badServer(t, "bad", "normal")}
			w := setup(t, setting)
			w.do("PUT", "/v1/skills/broken.js?userId=alice", "export const a = ;").want(http.StatusNoContent)
			programs := []string{
				"return 1", "const a = 1;\nreturn a +", "import { x } from '/skills/none.js';\nreturn x", "import '/skills/broken.js'",
				"await tools.bad.ecko({text: 'x'});\nawait tools.bad.echo({txt: 'x'});\nawait tools.worse.echo({})",
				"// ada@example.com\nconst a = 'ada@example.com';\nreturn a +",
			}
			var all []runs.Finding
			for _, code := range programs {
				var got struct{ Problems []runs.Finding }
				w.do("POST", "/v1/programs/check", map[string]string{"userId": "alice", "code": code, "sessionId": "none-yet"}).want(http.StatusOK).json(&got)
				if got.Problems == nil {
					t.Errorf("%q: no list", code)
				}
				all = append(all, got.Problems...)
			}
			var listed struct{ Runs, Sessions []any }
			w.do("GET", "/v1/runs", nil).want(http.StatusOK).json(&listed)
			w.do("GET", "/v1/sessions?userId=alice", nil).want(http.StatusOK).json(&listed)
			if stats := w.do("GET", "/v1/pii/stats?userId=alice&sessionId=none-yet", nil).want(http.StatusOK).body; len(listed.Runs)+len(listed.Sessions) > 0 || strings.Contains(stats, "EMAIL") {
				t.Errorf("a check leaves %v and %s", listed, stats)
			}
			var said []string
			for _, code := range programs {
				var out run.Outcome
				w.do("POST", "/v1/runs", map[string]string{"userId": "alice", "code": code}).want(http.StatusOK).json(&out)
				if e := out.Error; e != nil && (e.Name == "SyntaxError" || e.Name == "CheckError") {
					said = append(said, fmt.Sprintf("error %s:%d:%d: %s", e.File, e.Line, e.Column, e.Message))
				}
				for _, text := range out.Warnings {
					said = append(said, "warning "+text)
				}
			}
			var found []string
			for _, f := range all {
				file := f.File
				if file == "" {
					file = "program.js"
				}
				found = append(found, fmt.Sprintf("%s %s:%d:%d: %s", f.Severity, file, f.Line, f.Column, f.Message))
			}
			if a, b := strings.Join(found, "\n"), strings.Join(said, "\n"); a != b || len(said) < 4 {
				t.Errorf("a check says\n%s\na run says\n%s", a, b)
			}
		})
	}
}

// A check reads only modules of its caller, refuses programs that are too large, and ends with its request.
func TestCheckIsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true})
	alice, bob := w.key("alice"), w.key("bob")
	w.as(alice, "PUT", "/v1/skills/lib.js", "export const here = 1").want(http.StatusNoContent)
	code := map[string]string{"code": "import { here } from '/skills/lib.js';\nreturn here"}
	if r := w.as(alice, "POST", "/v1/programs/check", code).want(http.StatusOK); r.body != `{"problems":[]}`+"\n" {
		t.Errorf("alice: %s", r.body)
	}
	if r := w.as(bob, "POST", "/v1/programs/check", code).want(http.StatusOK); !strings.Contains(r.body, "lib.js") {
		t.Errorf("bob: %s", r.body)
	}
	w.as(alice, "POST", "/v1/programs/check", map[string]string{"code": strings.Repeat("1;", 1<<19)}).want(http.StatusRequestEntityTooLarge)
	// If the end of the request did not end the check, the check would report that the program takes too long.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	hostile := runs.Request{User: "alice", Code: "x = " + strings.Repeat("a?(b):c=>", 100)}
	if found, err := w.h.Runs().Check(ctx, auth.Identity{User: "alice", Roles: []auth.Role{auth.User}}, hostile); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a check whose request has ended: %v, %v", found, err)
	}
}
