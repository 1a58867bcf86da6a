package wiring_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	workspace "mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/wiring"
)

// TestNames lets a server answer with a name and an address at paths in pii.fields. From then on, also in the next process, the session has tokens in their
// place in everything: other servers, tasks, files and programs. The mailer gets the values.
func TestNames(t *testing.T) {
	t.Parallel()
	inForms(t, namesAreHidden)
}

func namesAreHidden(t *testing.T, tokens string) {
	// These are the tokens of ADA LOVELACE and 12 St. James's Square London in the note, and of Ada  Lovelace and ada lovelace in the second task. With
	// natural tokens, each spelling has its own token.
	capitals, line, spaces, small := "[NAME_1]", "[ADDRESS_1]", "[NAME_1]", "[NAME_1]"
	if tokens == "natural" {
		capitals, line, spaces, small = "[NAME_4]", "[ADDRESS_3]", "[NAME_1000000]", "[NAME_1000001]" // The numbers of a second process begin at a million.
	}
	const name, address = "Ada Lovelace", "12 St. James's Square\nLondon"
	crm, notes, mailer := newUpstream(t, "crm"), newUpstream(t, "notes"), newUpstream(t, "mailer")
	crm.on = func(context.Context, string, string, json.RawMessage) (string, error) {
		text, err := json.Marshal(map[string]any{"about": name + " is new", "customers": []any{map[string]string{"name": name, "address": address}, map[string]string{"name": "Li"}}})
		return string(text), err
	}
	notes.on = func(context.Context, string, string, json.RawMessage) (string, error) {
		return "Call ADA LOVELACE back. She is at 12 St. James's Square London. A lovelace is no name.", nil
	}
	mailer.on = func(_ context.Context, _, _ string, args json.RawMessage) (string, error) {
		return "sent " + string(args), nil
	}
	programs := []string{
		`const [c, li] = (await callMCPTool('crm__read', {})).customers
console.log(c, li, ["Ada", "Lovelace"].join(" "), await callMCPTool.raw('crm__read', {}))
await callMCPTool('mailer__send', {to: c.name, text: c.address, li: li.name})
await fs.writeFile('/workspace/note.txt', ['Ada', 'Lovelace called'].join(' '))
return [c, await callMCPTool('notes__read', {}), await fs.readFile('/workspace/note.txt')]`,
		`return [await fs.readFile('/workspace/own.txt'), await callMCPTool('notes__read', {})]`,
	}
	var asked, log lockedBuffer
	models := fake.Serve(func(r fake.Request) fake.Reply {
		asked.Write(r.Raw)
		first := !strings.Contains(string(r.Raw), "Write to")
		switch last := r.Messages[len(r.Messages)-1]; {
		case last.Role == "user" && first && strings.Contains(string(r.Raw), "Find somebody") && len(r.Messages) == 1:
			return program(programs[0])
		case strings.Contains(string(r.Raw), "Write to") && !strings.Contains(string(r.Raw), "own.txt"):
			return program(programs[1])
		}
		return fake.Reply{Text: "It is [NAME_1]."}
	})
	t.Cleanup(models.Close)
	logger := telemetry.NewLogger(telemetry.LogOptions{Writer: &log, Level: slog.LevelDebug, Redact: redact(t)})
	dir := t.TempDir()
	work := func(text, about string) task.Task {
		f := openIn(t, dir, map[string]string{
			"pii.tokens": tokens, "pii.fields": `{"crm__*": {"$.customers[*].name": "NAME", "$.customers[*].address": "address"}}`,
			"policy.rules": `[{tools: "mailer__*", tokens: {type: [name, address], from: "crm__*"}, action: allow}, {tools: "mailer__*", tokens: {}, action: deny}]`,
		}, wiring.Outside{Logger: logger}, crm.entry, notes.entry, mailer.entry)
		f.useModel(models)
		s, stop := f.work(t.Context(), wiring.TaskOptions{})
		in, _, err := s.Submit(t.Context(), task.Request{UserID: "ann", SessionID: "s", Task: text, Context: json.RawMessage(about)})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Wait(t.Context(), in.ID)
		if err != nil || got.Status != task.Succeeded {
			t.Fatalf("the task ended as %s: %s, %v", got.Status, got.Message, err)
		}
		stop()
		shown, err := task.Shown(t.Context(), f.Privacy(), got)
		if err != nil || shown.Text != "It is "+name+"." {
			t.Errorf("the owner gets %q, %v", shown.Text, err)
		}
		for _, id := range got.Runs {
			if out, err := f.Runs().Replay(t.Context(), f.journalOf(id), runs.Replay{}); err != nil || out.Error != nil {
				t.Errorf("the replay ends as %+v, %v", out, err)
			}
		}
		out, err := f.Runs().Execute(t.Context(), runs.Request{User: "ann", Session: "s", Code: `return 'to Ada Lovelace'`})
		if err != nil || string(out.Output) != `"to [NAME_1]"` {
			t.Errorf("a user's program returned %+v, %v", out, err)
		}
		if err := f.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := work("Find somebody.", `{}`)
	note := `"Call ` + capitals + ` back. She is at ` + line + `. A lovelace is no name."`
	if want := `[{"address":"[ADDRESS_1]","name":"[NAME_1]"},` + note + `,"[NAME_3] called"]`; string(first.Output) != want {
		t.Errorf("the first program returned %s, want %s", first.Output, want)
	}
	var sent struct{ To, Text, Li string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(mailer.sent()[0], "send ")), &sent); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent, struct{ To, Text, Li string }{name, address, "Li"}); diff != "" {
		t.Error("the mailer got:", diff)
	}
	base, err := workspace.OpenBase(filepath.Join(dir, "workspace"), workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	space, err := base.Open("ann", "s")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := space.WriteFrom(t.Context(), "own.txt", strings.NewReader("Ada Lovelace's file")); err != nil { // a file written by the user
		t.Fatal(err)
	}
	space.Close()
	written, err := filepath.Glob(filepath.Join(dir, "workspace", "*", "s", "own.txt"))
	if err != nil || len(written) != 1 {
		t.Fatalf("files %q, %v", written, err)
	}
	second := work("Write to Ada  Lovelace.", `{"who":["ada lovelace"]}`)
	if want := `["[NAME_1]'s file",` + note + `]`; string(second.Output) != want {
		t.Errorf("the second program returned %s, want %s", second.Output, want)
	}

	if err := os.Remove(written[0]); err != nil {
		t.Fatal(err)
	}
	places := map[string][]byte{"the model": []byte(asked.String()), "the log": []byte(log.String())}
	files(t, dir, places)
	values := regexp.MustCompile(`(?i)ada\s+lovelace|12 st\. james`)
	for place, text := range places {
		if at := values.FindIndex(text); at != nil {
			t.Errorf("%s has a value: %q", place, text[max(0, at[0]-200):min(len(text), at[1]+100)])
		}
	}
	for _, text := range []string{"Write to " + spaces + ".", `{\"who\":[\"` + small + `\"]}`} {
		if !strings.Contains(asked.String(), text) {
			t.Errorf("the model does not see %s, but %q", text, regexp.MustCompile(`Write to \S+|who.{1,20}`).FindAllString(asked.String(), 4))
		}
	}
}
