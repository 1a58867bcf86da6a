// Command check checks the client against a server: check all|stream|restart. The tests of the harness run it.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	harness "mcp-code-exec-harness/clients/go"
)

const user = "go"

var (
	ctx       = context.Background()
	at        = os.Getenv("HARNESS_URL")
	key       = os.Getenv("HARNESS_KEY")
	h         = &harness.Client{URL: at, Key: key}
	approver  = &harness.Client{URL: at, Key: os.Getenv("HARNESS_APPROVER")}
	admin     = &harness.Client{URL: at, Key: os.Getenv("HARNESS_ADMIN")}
	sendsMail = `await tools.mailer.send({to: "ann@example.com", subject: "Hello", body: "Hi"}); return 1`
)

func must[T any](value T, err error) T {
	done(err)
	return value
}

func done(err error) {
	if err != nil {
		panic(err)
	}
}

func same(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		panic(fmt.Sprintf("%s: got %v, want %v", what, got, want))
	}
}

// text returns JSON as a text, without spaces.
func text(v json.RawMessage) string {
	var b bytes.Buffer
	done(json.Compact(&b, v))
	return b.String()
}

func refused(err error, status int, code string) *harness.Error {
	var e *harness.Error
	if !errors.As(err, &e) || e.Status != status || e.Code != code {
		panic(fmt.Sprintf("the error is %v, not %d %s", err, status, code))
	}
	return e
}

func list(events iter.Seq2[harness.Event, error]) (all []harness.Event) {
	for e, err := range events {
		done(err)
		all = append(all, e)
	}
	return all
}

// stored returns the events that have an id, whose ids must be 1, 2, 3 and so on.
func stored(all []harness.Event) (out []harness.Event) {
	for _, e := range all {
		if e.ID > 0 {
			out = append(out, e)
			same("ids of events", e.ID, int64(len(out)))
		}
	}
	same("the last event", out[len(out)-1].Type, "task.ended")
	return out
}

func checkAll() {
	done(h.Health(ctx))
	checkTypes()
	checkTasks()
	checkSessions()
	checkRuns()
	checkPolicy()
	checkTools()
	checkErrors()
}

func checkTasks() {
	answer := must(h.DoTask(ctx, harness.NewTask{UserID: user, Task: "How many orders came in today?"}))
	same("the answer", []string{answer.Text, text(answer.Output), answer.Logs[0]}, []string{"42 orders came in today.", `{"orders":42}`, "counting"})
	written := ""
	for chunk, err := range h.StreamTask(ctx, harness.NewTask{UserID: user, Task: "Say hello."}) {
		done(err)
		written += chunk
	}
	same("StreamTask", written, "Hello there.")
	orders := harness.NewTask{
		Task: "How many orders came in today?", Key: "orders", Context: map[string]string{"country": "DE"}, Budget: &harness.Budget{Turns: 5, Wall: "2m"},
	}
	task := must(h.CreateTask(ctx, orders))
	same("the same key", must(h.CreateTask(ctx, orders)).ID, task.ID)
	events := stored(list(h.TaskEvents(ctx, task.ID, 0)))
	same("the first event", events[0].Type, "task.queued")
	same("events behind the first", list(h.TaskEvents(ctx, task.ID, 1)), events[1:])
	same("events behind the last", len(list(h.TaskEvents(ctx, task.ID, 1000))), 0)
	same("WaitTask", text(must(h.WaitTask(ctx, task.ID)).Output), `{"orders":42}`)
	page := must(h.Tasks(ctx, url.Values{"status": {"succeeded"}, "limit": {"1"}}))
	same("Tasks", []bool{len(page.Tasks) == 1, page.Next != ""}, []bool{true, true})
	tomorrow := time.Now().Add(24 * time.Hour)
	later := must(h.CreateTask(ctx, harness.NewTask{Task: "Say hello.", RunAt: &tomorrow}))
	same("CancelTask", must(h.CancelTask(ctx, later.ID)).Status, "cancelled")
	schedule := must(h.CreateSchedule(ctx, harness.NewSchedule{NewTask: harness.NewTask{Task: "Say hello."}, Cron: "0 18 * * 1-5", TimeZone: "Europe/Berlin"}))
	same("Schedule", must(h.Schedule(ctx, schedule.ID)).Cron, "0 18 * * 1-5")
	same("Schedules", must(h.Schedules(ctx)).Schedules[0].ID, schedule.ID)
	done(h.DeleteSchedule(ctx, schedule.ID))
}

func checkSessions() {
	same("CreateSession", must(h.CreateSession(ctx, "monday")).ID, "monday")
	must(h.CreateRun(ctx, harness.NewRun{Code: `await fs.writeFile("/workspace/n.txt", "42")`, SessionID: "monday"}))
	read := must(h.CreateRun(ctx, harness.NewRun{Code: `return await fs.readFile("/workspace/n.txt")`, SessionID: "monday"}))
	same("the session's file", text(read.Output), `"42"`)
	same("Session", must(h.Session(ctx, "monday")).ID, "monday")
	same("Sessions", len(must(h.Sessions(ctx, nil)).Sessions) > 0, true)
	done(h.DeleteSession(ctx, "monday"))

	table := []byte("day,total\nmon,40\ntue,2\n")
	done(h.PutFile(ctx, "reports", "in/totals.csv", table))
	same("Files", must(h.Files(ctx, "reports", "")).Files[1].Path, "in/totals.csv")
	part, _, err := h.File(ctx, "reports", "in/totals.csv", harness.Reading{Start: 10})
	same("a part of a file", string(must(part, err)), "mon,40\ntue,2\n")
	_, etag, err := h.File(ctx, "reports", "in/totals.csv", harness.Reading{Raw: true})
	done(err)
	unchanged, _, err := h.File(ctx, "reports", "in/totals.csv", harness.Reading{Raw: true, ETag: etag})
	same("a file that has not changed", must(unchanged, err) == nil, true)
	same("Zip", string(must(h.Zip(ctx, "reports", "in"))[:2]), "PK")
	sum := harness.NewRun{
		Code:      "let n = 0; for await (const row of input) n += Number(row.total); return n",
		SessionID: "reports", Input: &harness.Input{Path: "in/totals.csv"},
	}
	same("a run with an input", text(must(h.CreateRun(ctx, sum)).Output), "42")
	done(h.DeleteFile(ctx, "reports", "in"))
	// The connection is cut in both directions.
	done((&harness.Client{URL: at + "/upload/go", Key: key, Backoff: 1}).PutFile(ctx, "reports", "ü 1.csv", table))
	whole, _, err := (&harness.Client{URL: at + "/download/go", Key: key, Backoff: 1}).File(ctx, "reports", "ü 1.csv", harness.Reading{})
	same("a file, cut and continued", string(must(whole, err)), string(table))
}

func checkRuns() {
	run := must(h.CreateRun(ctx, harness.NewRun{Code: `console.log("working"); return 6 * 7`, Timeout: "5s"}))
	same("CreateRun", []any{run.Status, text(run.Output), run.Logs}, []any{"succeeded", "42", []harness.Log{{Level: "log", Text: "working"}}})
	same("Runs", len(must(h.Runs(ctx, url.Values{"limit": {"1"}})).Runs), 1)
	same("Run", text(must(h.Run(ctx, run.ID)).Output), "42")
	records := must(h.Journal(ctx, run.ID, nil)).Records
	same("Journal", strings.Contains(string(records[len(records)-1]), `"succeeded"`), true)
	same("a page of the journal", must(h.Journal(ctx, run.ID, url.Values{"limit": {"1"}})).Next, int64(1))
	same("ReplayRun", text(must(h.ReplayRun(ctx, run.ID)).Output), "42")
	events := list(h.RunEvents(ctx, run.ID, 0))
	same("RunEvents", []string{events[0].Type, events[1].Type}, []string{"run.log", "run.ended"})
	began := must(h.CreateRun(ctx, harness.NewRun{Code: "await utils.sleep(50); return 1", Wait: "0s"}))
	same("WaitRun", text(must(h.WaitRun(ctx, began.ID)).Output), "1")
	same("a program that fails", must(h.CreateRun(ctx, harness.NewRun{Code: "return x.y"})).Error.Kind, "runtime")
	capability := must(h.CreateCapability(ctx, run.ID))
	input := map[string]string{"query": "SELECT 40 + 2 AS answer"}
	same("CallTool", text(must((&harness.Client{URL: at}).CallTool(ctx, capability.Token, "database__query", input))), `[{"answer":42}]`)

	waiting := must(h.CreateRun(ctx, harness.NewRun{Code: sendsMail}))
	same("a run that waits", waiting.Status, "waiting_approval")
	id := waiting.Approval.ID
	same("Approvals", must(h.Approvals(ctx, url.Values{"status": {"waiting"}})).Approvals[0].ID, id)
	same("Approval", must(h.Approval(ctx, id)).Calls[0].Tool, "mailer__send")
	_, err := h.Approve(ctx, id, false)
	same("the fix of 403", refused(err, 403, "forbidden").Fix != "", true)
	same("Deny", must(approver.Deny(ctx, id, "not before Monday")).Status, "denied")
	same("a denied run", must(h.WaitRun(ctx, waiting.ID)).Error.Kind, "denied")
	waiting = must(h.CreateRun(ctx, harness.NewRun{Code: sendsMail}))
	same("Approve", must(approver.Approve(ctx, waiting.Approval.ID, false)).Status, "approved")
	same("an approved run", text(must(h.WaitRun(ctx, waiting.ID)).Output), "1")

	same("Doubts", text(must(approver.Doubts(ctx, nil))), `{"doubts":[]}`)
	refused(approver.SettleCall(ctx, run.ID, 1, "done", ""), 409, "conflict")
}

func checkPolicy() {
	const to = "pii_1e@d1.pii.invalid"
	for what, answer := range map[string]json.RawMessage{
		`"rules"`: must(approver.Policy(ctx)),
		`"deny"`: must(approver.AskPolicy(ctx, "test", map[string]any{
			"tool": "mailer__send", "args": map[string]string{"to": to}, "preset": "strict", "tokens": []any{map[string]any{"text": to, "from": []string{"crm__get"}}},
		})),
		`"line":1`:   must(approver.AskPolicy(ctx, "check", map[string]string{"policy": "- {tools: mailer, action: deny}"})),
		`"changed"`:  must(approver.AskPolicy(ctx, "simulation", map[string]any{"policy": `- {tools: "mailer__*", action: deny}`, "runs": 100})),
		`"inEffect"`: must(approver.PolicyPresets(ctx, nil)),
		`"flows"`:    must(approver.PolicyFlows(ctx, url.Values{"by": {"server"}})),
	} {
		same(what+" in "+text(answer), strings.Contains(text(answer), what), true)
	}
	must(admin.AddServer(ctx, map[string]string{"name": "remote-go", "url": "https://mcp.example.com/mcp"}))
	same("Servers", strings.Contains(string(must(admin.Servers(ctx))), `"remote-go"`), true)
	done(admin.RemoveServer(ctx, "remote-go"))
	refused(h.RemoveServer(ctx, "remote-go"), 403, "forbidden")
	same("Metrics", strings.Contains(must(admin.Metrics(ctx)), "harness_"), true)
}

func checkTools() {
	same("Tools", len(must(h.Tools(ctx, url.Values{"server": {"database"}})).Tools) > 0, true)
	same("SearchTools", must(h.SearchTools(ctx, "run sql", 1)).Tools[0].Name, "database__query")
	same("Tool", strings.Contains(string(must(h.Tool(ctx, "database__query")).InputSchema), `"object"`), true)
	same("Types", strings.Contains(must(h.Types(ctx, url.Values{"server": {"database"}})), "query(input: QueryInput)"), true)
	same("a tool", text(must(h.CreateRun(ctx, harness.NewRun{Code: `return await tools.database.query("SELECT 40 + 2 AS answer")`})).Output), `[{"answer":42}]`)
	const double = "export default (n) => n * 2"
	done(h.PutSkill(ctx, "math/double.js", double))
	same("Skills", must(h.Skills(ctx, nil)).Skills[0].Name, "math/double")
	same("Skill", must(h.Skill(ctx, "math/double.js")), double)
	same("a skill", text(must(h.CreateRun(ctx, harness.NewRun{Code: "import double from \"/skills/math/double.js\"\nreturn double(21)"})).Output), "42")
	done(h.DeleteSkill(ctx, "math"))
}

func checkErrors() {
	_, err := (&harness.Client{URL: at, Key: "hk_wrong"}).Tasks(ctx, nil)
	refused(err, 401, "unauthorized")
	_, err = h.DoTask(ctx, harness.NewTask{UserID: "somebody", Task: "x"})
	same("403", refused(err, 403, "forbidden").Message, "not allowed: the credential belongs to another user")
	_, err = h.Task(ctx, "task_1")
	refused(err, 404, "not_found")
	_, err = h.CreateTask(ctx, harness.NewTask{Task: "x", Budget: &harness.Budget{Turns: -1}})
	same("a wrong field", refused(err, 400, "bad_request").Details[0].Location, "body.budget")
	dead := &harness.Client{URL: "http://127.0.0.1:1", Patience: 100 * time.Millisecond, Backoff: time.Millisecond}
	same("the fix of a server that does not run", strings.Contains(refused(dead.Health(ctx), 0, "unreachable").Fix, "harness serve"), true)

	signed := http.Header{"X-Harness-Timestamp": {os.Getenv("WEBHOOK_TIMESTAMP")}, "X-Harness-Signature": {os.Getenv("WEBHOOK_SIGNATURE")}}
	secret, body := []byte(os.Getenv("WEBHOOK_SECRET")), []byte(os.Getenv("WEBHOOK_BODY"))
	same("VerifyWebhook", harness.VerifyWebhook(secret, signed, body, time.Hour), true)
	for _, bad := range []bool{
		harness.VerifyWebhook(secret, signed, append(body, ' '), time.Hour), harness.VerifyWebhook([]byte("other"), signed, body, time.Hour),
		harness.VerifyWebhook(secret, http.Header{}, body, time.Hour), harness.VerifyWebhook(secret, signed, body, 0),
	} {
		same("VerifyWebhook of what is not signed", bad, false)
	}

	began := time.Now()
	must((&harness.Client{URL: at + "/limited/go", Key: key}).CreateSession(ctx, "limited")) // the first request is refused with Retry-After: 1
	same("Retry-After", time.Since(began) >= time.Second, true)
	lost := &harness.Client{URL: at + "/lost/go", Key: key, Backoff: 1} // the answer to the first request is lost
	must(lost.CreateTask(ctx, harness.NewTask{Task: "Say hello.", SessionID: "lost"}))
	same("tasks after a lost answer", len(must(h.Tasks(ctx, url.Values{"sessionId": {"lost"}})).Tasks), 1)
	_, err = (&harness.Client{URL: at + "/lost/go-session", Key: key}).CreateSession(ctx, "lost-answer")
	refused(err, 0, "unreachable")
}

// checkTypes compares the types of the client with the schemas of the server's document.
func checkTypes() {
	var document struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	resp := must(http.Get(at + "/openapi.json"))
	defer resp.Body.Close()
	done(json.NewDecoder(resp.Body).Decode(&document))
	for name, v := range map[string]any{
		"TaskRequest": harness.NewTask{}, "Budget": harness.Budget{}, "TaskError": harness.Failure{}, "Task": harness.Task{}, "TaskList": harness.TaskList{},
		"OriginalAnswer": harness.Answer{}, "NewRun": harness.NewRun{}, "NewInput": harness.Input{}, "JournalLog": harness.Log{}, "RunError": harness.RunError{},
		"RunDetails": harness.Run{}, "RunLine": harness.RunLine{}, "RunList": harness.RunList{}, "Journal": harness.Journal{}, "RunCapability": harness.Capability{},
		"ApprovalRequest": harness.Approval{}, "ApprovalCall": harness.ApprovalCall{}, "ApprovalList": harness.ApprovalList{}, "TaskSession": harness.Session{},
		"SessionList": harness.SessionList{}, "File": harness.File{}, "FileList": harness.FileList{}, "ToolLine": harness.Tool{}, "ToolList": harness.ToolList{},
		"CatalogDetails": harness.ToolDetails{}, "SkillsSkill": harness.Skill{}, "SkillList": harness.SkillList{}, "NewSchedule": harness.NewSchedule{},
		"TaskSchedule": harness.Schedule{}, "ScheduleList": harness.ScheduleList{}, "Detail": harness.Detail{},
	} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			field, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if _, known := document.Components.Schemas[name].Properties[field]; !known && field != "-" && !f.Anonymous {
				panic(fmt.Sprintf("the schema %s of the document has no %s", name, field))
			}
		}
	}
}

func checkStream() {
	var want [][3]json.RawMessage
	done(json.Unmarshal(must(os.ReadFile(os.Getenv("EVENTS"))), &want))
	for cut := range must(strconv.Atoi(os.Getenv("CUTS"))) {
		h := &harness.Client{URL: fmt.Sprintf("%s/cut/go/%d", at, cut), Key: key, Backoff: 1}
		got := list(h.TaskEvents(ctx, os.Getenv("TASK"), 0))
		same("events", len(got), len(want))
		for i, e := range got {
			same(fmt.Sprintf("event %d of a stream cut behind byte %d", i, cut), fmt.Sprintf("%d %q %s", e.ID, e.Type, text(e.Data)),
				fmt.Sprintf("%s %s %s", want[i][0], want[i][1], text(want[i][2])))
		}
	}
}

func checkRestart() {
	h.Backoff = 50 * time.Millisecond
	waiting := must(h.CreateRun(ctx, harness.NewRun{Code: sendsMail}))
	task := must(h.CreateTask(ctx, harness.NewTask{Task: "How many orders came in today?"}))
	seen := make(chan []harness.Event)
	go func() { seen <- list(h.TaskEvents(ctx, task.ID, 0)) }()
	fmt.Println("ready")
	must(bufio.NewReader(os.Stdin).ReadString('\n')) // The line comes after the server has been killed and started again.
	same("the task", text(must(h.WaitTask(ctx, task.ID)).Output), `{"orders":42}`)
	stored(<-seen)
	must(approver.Approve(ctx, waiting.Approval.ID, false))
	same("the run", text(must(h.WaitRun(ctx, waiting.ID)).Output), "1")
}

func main() {
	map[string]func(){"all": checkAll, "stream": checkStream, "restart": checkRestart}[os.Args[1]]()
	fmt.Println("ok")
}
