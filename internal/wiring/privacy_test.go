package wiring_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/wiring"
)

// value is a value of personal data in a session.
const value = "grace.hopper@example.com"

// lockedBuffer is a buffer to which several goroutines can write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// redact returns the function that removes personal data from the log.
func redact(t *testing.T) func(string) string {
	d, err := config.PII{Enabled: true}.Detector()
	if err != nil {
		t.Fatal(err)
	}
	return pii.Redact(d)
}

// TestPrivacy lets a value into a task in every way that exists: in its text and context, composed by programs, in a skill, in answers and errors of servers,
// and in a file of the user. The value reaches the server for which it is meant, and nothing else: not the model, a file, the store, an event, a webhook, the
// log or the metrics.
func TestPrivacy(t *testing.T) {
	t.Parallel()
	inForms(t, nothingButItsServerGetsTheValue)
}

func nothingButItsServerGetsTheValue(t *testing.T, tokens string) {
	token := map[string]string{"bracket": "[EMAIL_1]", "natural": "pii_1e@d1.pii.invalid"}[tokens]
	up := newUpstream(t, "up")
	var mu sync.Mutex
	var received []string
	up.on = func(_ context.Context, tool, _ string, args json.RawMessage) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		received = append(received, string(args))
		switch {
		case strings.Contains(string(args), "fail"):
			return "", errors.New("there is no " + value)
		case strings.Contains(string(args), "large"):
			return strings.Repeat("x ", 1<<20) + value, nil
		case tool == "read":
			return `{"of":[{"` + value + `":"<` + value + `>"}]}`, nil
		}
		return "sent to " + value, nil
	}
	var asked lockedBuffer
	const made = `const made = ["grace.hopper", "@exam", "ple.", "com"].join(""); ` // composed by a program that guesses
	programs := []string{
		made + `const {default: own} = await import('/skills/own.js')
const found = await callMCPTool('up__read', {q: "` + token + `"})
await callMCPTool('up__send', {to: "` + token + `", again: made})
console.log(found, own, made)
await fs.writeFile('/workspace/kept.txt', JSON.stringify(found) + made)
return [found, await fs.readFile('/skills/notes.txt'), made]`,
		`return await callMCPTool('up__read', {large: true})`,
		`await callMCPTool('up__read', {fail: true})`,
		made + `throw Object.assign(new Error("no " + made), {data: {to: made}})`,
		made + `require('./' + made)`,
		made + `return await callMCPTool('up__' + made)`,
		`import * as mail from './servers/mail'; return [Object.keys(mail), await import('./servers/mail')]`,
		made + `const o = {}; o[made] = new Map([[made, 1]]); return o`,
	}
	models := fake.Serve(func(r fake.Request) fake.Reply {
		var turn int
		for _, m := range r.Messages {
			if m.Role == "assistant" {
				turn++
			}
		}
		asked.Write(r.Raw)
		switch {
		case turn < len(programs):
			return program(programs[turn])
		case turn == len(programs):
			return fake.Reply{Calls: []fake.Call{{Name: "get_tool_details", Input: `{"names":["mail__write"]}`}}}
		}
		return fake.Reply{Text: "Wrote to " + token + "."}
	})
	t.Cleanup(models.Close)
	mail := mcp.NewServer(&mcp.Implementation{Name: "mail", Version: "1"}, &mcp.ServerOptions{Instructions: "It belongs to " + value + "."})
	mail.AddTool(&mcp.Tool{Name: "write", Description: "Writes as " + value + ".", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	mails := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return mail }, nil))
	t.Cleanup(func() { mails.CloseClientConnections(); mails.Close() })
	var told lockedBuffer // bodies of webhooks
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		told.Write(body)
	}))
	t.Cleanup(hook.Close)

	var log lockedBuffer
	metrics := telemetry.NewMetrics()
	logger := telemetry.NewLogger(telemetry.LogOptions{Writer: &log, Level: slog.LevelDebug, Redact: redact(t)})
	dir := t.TempDir()
	skills := filepath.Join(dir, "skills", "ann")
	f := openIn(t, dir, map[string]string{"server.webhooks.allowPrivate": "true", "sandbox.maxValue": "1MiB", "pii.tokens": tokens},
		wiring.Outside{Logger: logger, Metrics: metrics, Audit: telemetry.NewAuditor(logger, telemetry.AuditFile{})},
		up.entry, &config.MCPServer{Name: "mail", URL: mails.URL, StartupTimeout: patience, Timeout: patience})
	saved, err := f.Skills()
	if err != nil {
		t.Fatal(err)
	}
	own, err := saved.Dir("ann")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"own.js": "/** Writes" + strings.Repeat(" again", 22) + " to " + value + ". */\nexport default '" + value + "'", "notes.txt": "of " + value,
	} {
		if err := own.WriteFile(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	own.Close()
	logger.Info("a server says "+value, "text", value)

	s := f.tasks(models)
	in, _, err := s.Submit(t.Context(), task.Request{
		UserID: "ann", Task: "Write to " + value + ".", Context: json.RawMessage(`{"to":"` + value + `"}`), Callback: hook.URL,
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Wait(t.Context(), in.ID)
	if err != nil || got.Status != task.Succeeded || len(got.Runs) != len(programs) {
		t.Fatalf("the task ended as %s with %d runs: %s, %v", got.Status, len(got.Runs), got.Message, err)
	}
	eventually(t, "the webhook", func() bool { return strings.Contains(told.String(), got.ID) })
	out, err := f.Runs().Execute(t.Context(), runs.Request{User: "bob", Code: `return await callMCPTool('up__put', {to: "` + value + `"})`})
	if err != nil || string(out.Output) != `"sent to `+token+`"` {
		t.Errorf("a program with the value in it ended as %+v, %v", out, err)
	}
	sched, err := s.CreateSchedule(t.Context(), task.NewSchedule{
		Request: task.Request{UserID: "ann", Task: "Write to " + value + " again."}, Cron: "0 0 1 1 *",
	})
	if err != nil || strings.Contains(sched.Task, value) {
		t.Errorf("the schedule has %q, %v", sched.Task, err)
	}

	// The server for which the value is meant got it in both spellings.
	mu.Lock()
	if all := strings.Join(received, "\n"); !strings.Contains(all, `"q":"`+value+`"`) || strings.Count(all, value) != 4 || strings.Contains(all, token) {
		t.Errorf("the server received\n%s", all)
	}
	mu.Unlock()
	events, err := s.Past(t.Context(), in.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	eventText, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	taskText, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	page := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/", nil))
	places := map[string]string{
		"the model": asked.String(), "the events": string(eventText), "the task": string(taskText), "the webhook": told.String(),
		"the log": log.String(), "the page of metrics": page.Body.String(),
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path, skills) || d.Name() == "pii.key" { // skips the skill, which the user wrote, and the key, which is random
			return err
		}
		text, err := os.ReadFile(path)
		places[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for place, text := range places {
		if i := strings.Index(text, "grace.hopper@"); i >= 0 { // Even a part of the value must not occur.
			t.Errorf("%s has it: …%s…", place, text[max(0, i-200):min(len(text), i+100)])
		}
		// The structure of answers is stored with a delay, so its file may be missing. It contains no texts.
		empty := strings.HasPrefix(filepath.Base(place), "harness.db") && !strings.HasSuffix(place, "-wal") || place == "the page of metrics" ||
			filepath.Base(place) == "shapes.json"
		want := token
		if place == "the log" {
			want = "[EMAIL]"
		}
		if !empty && !strings.Contains(text, want) {
			t.Errorf("%s does not even have the token: is it looked at? %.300s", place, text)
		}
	}
}

// A skill outlives its session: when a program writes a skill, the tokens of values that the skill had are restored, and tokens of other values are refused.
func TestTokensInSkills(t *testing.T) {
	t.Parallel()
	f := openIn(t, t.TempDir(), nil, wiring.Outside{})
	saved, err := f.Skills()
	if err != nil {
		t.Fatal(err)
	}
	own, err := saved.Dir(runs.DefaultUser)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := own.WriteFile("mail.js", []byte("export const to = '"+value+"'")); err != nil {
		t.Fatal(err)
	}
	out, err := f.Runs().Execute(t.Context(), runs.Request{Session: "s", Code: `
const text = await fs.readFile('/skills/mail.js')
await fs.writeFile('/skills/mail.js', text + ';')
const tried = []
for (const write of [
  () => fs.writeFile('/skills/other.js', text), () => fs.appendFile('/skills/other.js', text),
  async () => { await fs.writeFile('/workspace/w.js', text); await fs.copyFile('/workspace/w.js', '/skills/copied.js') },
  () => fs.rename('/workspace/w.js', '/skills/moved.js'),
]) await write().then(() => tried.push('written'), (e) => tried.push(e.message))
return [text, tried, await fs.readdir('/skills')]`})
	if err != nil {
		t.Fatal(err)
	}
	got := string(out.Output)
	if strings.Contains(got, value) || strings.Contains(got, "written") || strings.Count(got, "pass it as a parameter") != 4 || strings.Contains(got, "moved.js\"") {
		t.Errorf("got %s", got)
	}
	if text, err := own.ReadFile("mail.js", 0, -1); err != nil || string(text) != "export const to = '"+value+"';" {
		t.Errorf("the skill is %s, %v", text, err)
	}
}
