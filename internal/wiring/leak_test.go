package wiring_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/testing/leaktest"
	"mcp-code-exec-harness/internal/wiring"
)

const pageSize = 40 // number of customers

// crm is a server with customers. Its tools are page, which returns a page of customers in a form that depends on the page's number; encoded, which returns
// values within other texts; orders, echo, fail, update and purge.
type crm struct {
	*upstream
	people []customer
	block  chan struct{} // closed when update may answer
	middle chan struct{} // gets a value when update is called for the customer in the middle
	mu     sync.Mutex
	got    map[string]customer // customers that update has received, by id
}

func newCRM(t testing.TB, people []customer) *crm {
	c := &crm{
		upstream: newUpstream(t, "crm"), people: people, block: make(chan struct{}), middle: make(chan struct{}, 100), got: map[string]customer{},
	}
	for name, do := range map[string]func(ctx context.Context, in request) (*mcp.CallToolResult, error){
		"page": c.page, "encoded": c.encoded, "orders": c.orders, "echo": c.echo, "fail": c.fail, "update": c.update, "purge": c.purge,
	} {
		hints := &mcp.ToolAnnotations{ReadOnlyHint: name != "update" && name != "purge", IdempotentHint: name == "update"}
		c.mcp.AddTool(&mcp.Tool{Name: name, Annotations: hints, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				var in request
				if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
					return nil, err
				}
				return do(ctx, in)
			})
	}
	return c
}

// request holds the arguments of all tools of the server.
type request struct {
	Page   int        `json:"page"`
	How    string     `json:"how"`
	Emails []string   `json:"emails"`
	Text   string     `json:"text"`
	People []customer `json:"people"`
}

func says(text string) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
}

func saysJSON(v any) (*mcp.CallToolResult, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return says(string(text))
}

func prose(c customer) string {
	return fmt.Sprintf("Customer %s: write to %s or call %s. SSN %s; card %s; IBAN %s; addresses %s and %s; device %s; wallet %s; key %s.",
		c.ID, c.Email, c.Phone, c.SSN, c.Card, c.IBAN, c.IP, c.IP6, c.MAC, c.Wallet, c.Key)
}

func (c *crm) onPage(in request) []customer { return c.people[in.Page*pageSize : (in.Page+1)*pageSize] }

func (c *crm) page(_ context.Context, in request) (*mcp.CallToolResult, error) {
	people := c.onPage(in)
	switch in.Page % 5 {
	case 0:
		return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: map[string]any{"customers": people}}, nil
	case 1:
		return saysJSON(people)
	case 2:
		text := "id,email,phone,ssn,creditCard,iban,ip,ipv6,mac,wallet,apiKey\n"
		for _, p := range people {
			text += p.ID + "," + strings.Join(p.values(), ",") + "\n"
		}
		return says(text)
	case 3:
		var text strings.Builder
		for _, p := range people {
			text.WriteString(prose(p) + "\n")
		}
		return says(text.String())
	}
	byEmail := map[string]map[string]string{}
	for _, p := range people {
		byEmail[p.Email] = map[string]string{
			"id": p.ID, "phone": p.Phone, "ssn": p.SSN, "creditCard": p.Card, "iban": p.IBAN, "ip": p.IP, "ipv6": p.IP6, "mac": p.MAC,
			"wallet": p.Wallet, "apiKey": p.Key,
		}
	}
	return saysJSON(byEmail)
}

func (c *crm) encoded(_ context.Context, in request) (*mcp.CallToolResult, error) {
	all := make([]any, 0, pageSize)
	for _, p := range c.onPage(in) {
		text, err := json.Marshal(p)
		if err != nil {
			return nil, err
		}
		switch in.How {
		case "base64":
			all = append(all, base64.StdEncoding.EncodeToString(text), base64.URLEncoding.EncodeToString([]byte("a "+prose(p))))
		case "json":
			quoted, err := json.Marshal(string(text))
			if err != nil {
				return nil, err
			}
			all = append(all, string(text), string(quoted))
		case "query":
			q := url.Values{"email": {p.Email}, "phone": {p.Phone}, "ssn": {p.SSN}, "card": {p.Card}, "iban": {p.IBAN}, "ip": {p.IP}, "ipv6": {p.IP6}, "mac": {p.MAC}, "wallet": {p.Wallet}, "key": {p.Key}}
			all = append(all, "https://crm.example/find?"+q.Encode())
		case "html":
			all = append(all, "<td>"+strings.Join(p.values(), "</td><td>")+"</td>", html.EscapeString("<b title=\""+p.Email+"\">"+p.Phone+"</b>"))
		case "escapes":
			escaped := ""
			for _, v := range p.values() {
				escaped += leaktest.Spellings(v)["escapes"] + " and "
			}
			all = append(all, escaped)
		}
	}
	return saysJSON(all)
}

func (c *crm) orders(_ context.Context, in request) (*mcp.CallToolResult, error) {
	var text strings.Builder
	for i, p := range c.people {
		if slices.Contains(in.Emails, p.Email) {
			fmt.Fprintf(&text, "%s;%d;%s\n", p.Email, i%7, p.Phone)
		}
	}
	return says(text.String())
}

// echo returns a text in an encoding.
func (c *crm) echo(_ context.Context, in request) (*mcp.CallToolResult, error) {
	if in.How == "base64" {
		return says("it is " + base64.StdEncoding.EncodeToString([]byte(in.Text)) + ".")
	}
	return says("it is " + leaktest.Spellings(in.Text)[in.How] + ".")
}

// fail returns an error with the data of all customers of a page.
func (c *crm) fail(_ context.Context, in request) (*mcp.CallToolResult, error) {
	text := "there are duplicates:"
	for _, p := range c.onPage(in) {
		text += "\n" + prose(p)
	}
	if in.How == "protocol" {
		return nil, fmt.Errorf("%s", text)
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
}

func (c *crm) update(ctx context.Context, in request) (*mcp.CallToolResult, error) {
	if slices.ContainsFunc(in.People, func(p customer) bool { return p.ID == c.people[len(c.people)/2].ID }) {
		select {
		case c.middle <- struct{}{}:
		default:
		}
		select {
		case <-c.block:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range in.People {
		c.got[p.ID] = p
	}
	return says(fmt.Sprintf("%d are saved, the last one is %s", len(in.People), prose(in.People[len(in.People)-1])))
}

func (c *crm) purge(_ context.Context, in request) (*mcp.CallToolResult, error) {
	return says("purged " + in.People[0].Email)
}

// programsOfLeak do what typical programs do with customers. Each begins with parse, which reads every form of a page.
var programsOfLeak = []string{
	// reads all pages, checks that they contain only tokens, and writes files
	`const people = []
for (let page = 0; page * 40 < total; page++) {
  const got = await callMCPTool('crm__page', {page})
  people.push(...parse(got))
  if (page % 5 === page / 5) console.log('page', page, got)
  console.error(got.length)
}
await fs.writeFile('/workspace/customers.json', JSON.stringify(people))
await fs.writeFile('/workspace/customers.csv', people.map((p) => fields.map((f) => p[f]).join(',')).join('\n'))
const bad = people.flatMap((p) => fields.slice(1).filter((f) => !/^` + tokenPattern + `$/.test(p[f])).map((f) => p.id + ' ' + f + ' ' + p[f]))
return {count: people.length, bad, first: people.slice(0, 3)}`,
	// reads the files, joins and filters them, and reads pages in other forms
	`const people = JSON.parse(await fs.readFile('/workspace/customers.json'))
const csv = (await fs.readFile('/workspace/customers.csv')).split('\n')
if (people.some((p, i) => fields.map((f) => p[f]).join(',') !== csv[i])) throw new Error('the files differ')
const of = new Map()
for (let i = 0; i < people.length; i += 100) {
  const text = await callMCPTool('crm__orders', {emails: people.slice(i, i + 100).map((p) => p.email)})
  for (const line of text.trim().split('\n')) of.set(line.split(';')[0], line.split(';'))
}
const joined = people.filter((p) => of.get(p.email)?.[2] === p.phone)
const rich = joined.filter((p) => Number(of.get(p.email)[1]) > 5)
await fs.appendFile('/workspace/rich.csv', rich.map((p) => p.email + ',' + p.iban).join('\n'))
console.table(rich.slice(0, 5))
return {joined: joined.length, rich: rich.length, head: (await fs.readFile('/workspace/rich.csv')).slice(0, 200)}`,
	`const all = []
for (const how of ['base64', 'json', 'query', 'html', 'escapes']) {
  const got = await callMCPTool('crm__encoded', {page: 1, how})
  console.log(how, got)
  await fs.writeFile('/workspace/' + how + '.txt', JSON.stringify(got))
  all.push(got.slice(0, 3), await callMCPTool.raw('crm__encoded', {page: 2, how}))
}
const people = JSON.parse(await fs.readFile('/workspace/customers.json')).slice(0, 20)
for (const how of ['plain', 'hex', 'base64', 'percent', 'escapes', 'query'])
  for (const p of people) for (const f of fields.slice(1)) console.log(how, f, p[f], await callMCPTool('crm__echo', {how, text: p[f]}))
return all.slice(0, 4)`,
	// prints and returns errors
	`const said = []
for (const how of ['result', 'protocol']) {
  try { await callMCPTool('crm__fail', {page: 3, how}) } catch (e) { said.push(e.message); console.log(e.stack, e) }
}
await fs.writeFile('/skills/customers.js', '/** Counts customers. */\nexports.count = (people) => people.length')
try {
  await fs.writeFile('/skills/first.js', 'exports.first = ' + JSON.stringify(said[0].slice(0, 500)))
} catch (e) { said.push(e.message) }
return said`,
	`await callMCPTool('crm__fail', {page: 2, how: 'result'})`,
	`const {count} = await import('/skills/customers.js')
try { await callMCPTool('crm__fail', {page: 1, how: 'result'}) }
catch (e) { throw Object.assign(new TypeError(count([1]) + ': ' + e.message.toUpperCase()), {cause: e, data: {said: e.message}}) }`,
	// writes
	`const people = JSON.parse(await fs.readFile('/workspace/customers.json'))
let n = 0
for (const p of people.slice(0, 20)) console.log(await callMCPTool('crm__update', {people: [p]}), ++n)
for (let i = 20; i < people.length; i += 20) console.log(await callMCPTool('crm__update', {people: people.slice(i, i + 20)}))
return people.length`,
	`const people = JSON.parse(await fs.readFile('/workspace/customers.json'))
return callMCPTool('crm__purge', {people: people.slice(0, 10)})`,
}

const parseOfLeak = `
const total = %d, fields = ['id', 'email', 'phone', 'ssn', 'creditCard', 'iban', 'ip', 'ipv6', 'mac', 'wallet', 'apiKey']
const parse = (got) => {
  if (got.customers) return got.customers
  if (Array.isArray(got)) return got
  if (typeof got === 'object') return Object.entries(got).map(([email, rest]) => ({email, ...rest}))
  if (got.startsWith('id,')) return got.trim().split('\n').slice(1).map((l) => Object.fromEntries(l.split(',').map((v, i) => [fields[i], v])))
  return got.trim().split('\n').map((l) => {
    const tokens = l.match(/` + tokenPattern + `/g)
    return {id: l.match(/C\d{5}/)[0], ...Object.fromEntries(fields.slice(1).map((f, i) => [f, tokens[i]]))}
  })
}
`

// TestLeak works with many customers in every way in which programs do. Their data reaches only the servers whose tools are called with their tokens. This
// includes an approval, and the end of a harness in the middle of a program.
func TestLeak(t *testing.T) {
	t.Parallel()
	inForms(t, leak)
}

func leak(t *testing.T, tokens string) {
	n := 1000
	if testing.Short() || tokens == "natural" { // The form of tokens does not matter for the slow part.
		n = 200
	}
	people := customers(n, 1)
	own := customers(2, 99) // The model writes these by itself.
	invented, split := own[0], own[1].Email
	server := newCRM(t, people)
	var asked, notified, told, traced, log lockedBuffer
	models := fake.Serve(func(r fake.Request) fake.Reply {
		asked.Write(r.Raw)
		turn := 0
		for _, m := range r.Messages {
			if m.Role == "assistant" {
				turn++
			}
		}
		if turn < len(programsOfLeak) {
			reply := program(fmt.Sprintf("const invented = %q;\n", prose(invented)) + fmt.Sprintf(parseOfLeak, n) + programsOfLeak[turn])
			reply.Thinking, reply.Text = "There is "+prose(invented), "I know "+prose(invented)
			return reply
		}
		if turn == len(programsOfLeak) { // The reply exceeds the maximum length, and ends in the middle of a value.
			return fake.Reply{Text: "All but [EMAIL_1] are saved. Ask also " + prose(invented) + " Write to " + split[:9], Stop: "length"}
		}
		return fake.Reply{Thinking: "It was " + split, Text: split[9:] + " soon."}
	})
	t.Cleanup(models.Close)
	keep := func(to *lockedBuffer) string {
		web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			to.Write(body)
		}))
		t.Cleanup(web.Close)
		return web.URL
	}
	hook, approvalHook := keep(&notified), keep(&told)
	tracer, err := telemetry.NewTracer(telemetry.TracingOptions{Endpoint: keep(&traced), Redact: redact(t)})
	if err != nil {
		t.Fatal(err)
	}
	logger := telemetry.NewLogger(telemetry.LogOptions{Writer: &log, Level: slog.LevelDebug, Redact: redact(t)})
	metrics := telemetry.NewMetrics()
	dir := t.TempDir()
	harness := func() *fixture {
		f := openIn(t, dir, map[string]string{
			"server.webhooks.allowPrivate": "true", "approvals.webhook": approvalHook, "server.shutdownTimeout": "1ms", "sandbox.maxOutput": "8MiB", "sandbox.maxCalls": "5000",
			"pii.tokens": tokens, "policy.rules": `[{tools: "crm__purge", action: ask, reason: a person purges}]`, "sandbox.timeout": "1m", "sandbox.callTimeout": "2m", "sandbox.maxWall": "10m",
		}, wiring.Outside{Logger: logger, Metrics: metrics, Audit: telemetry.NewAuditor(logger, telemetry.AuditFile{})}, server.entry)
		f.useModel(models)
		return f
	}
	for _, p := range people[:20] {
		logger.Info(prose(p), "customer", prose(p), "error", fmt.Errorf("no %s", p.Email))
	}

	// In a task, the harness ends in the middle of a program.
	first := harness()
	s, stop := first.work(tracer.With(context.Background()), wiring.TaskOptions{})
	about, err := json.Marshal(people[1])
	if err != nil {
		t.Fatal(err)
	}
	in, _, err := s.Submit(t.Context(), task.Request{UserID: "ann", Task: "Save all customers but this one. " + prose(people[0]), Context: about, Callback: hook})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan task.Task, 1)
	go func() {
		got, _ := s.Wait(t.Context(), in.ID)
		ended <- got
	}()
	select {
	case <-server.middle:
	case got := <-ended:
		t.Fatalf("the task ended before the middle: %+v", got)
	}
	stop()
	if err := first.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	close(server.block)
	f := harness()
	var opt wiring.TaskOptions
	recorder, err := f.Record(&opt, prose(people[2]), "") // records the rest of the task
	if err != nil {
		t.Fatal(err)
	}
	s, stop = f.work(tracer.With(context.Background()), opt)
	t.Cleanup(stop)
	got, err := s.Wait(t.Context(), in.ID)
	if err != nil || got.Status != task.WaitingApproval {
		t.Fatalf("the task is %s: %s, %v", got.Status, got.Message, err)
	}
	requests, _, err := f.Runs().Approvals(t.Context(), auth.Local(), approval.Filter{})
	if err != nil || len(requests) != 1 {
		t.Fatalf("%d requests, %v", len(requests), err)
	}
	s.Decided("") // does what the server's loop over decided approvals does
	eventually(t, "both webhooks of the request", func() bool {
		return strings.Contains(told.String(), requests[0].ID) && strings.Contains(notified.String(), requests[0].ID)
	})
	if _, err := f.Runs().Decide(t.Context(), auth.Local(), requests[0].ID, approve); err != nil {
		t.Fatal(err)
	}
	s.Decided(in.ID)
	eventually(t, "the task ends", func() bool {
		got, err = s.Wait(t.Context(), in.ID)
		return err != nil || got.Status.Ended()
	})
	if err != nil || got.Status != task.Succeeded || len(got.Runs) != len(programsOfLeak) {
		t.Fatalf("the task ended as %s with %d runs: %s, %v", got.Status, len(got.Runs), got.Message, err)
	}
	eventually(t, "the webhook", func() bool { return strings.Contains(notified.String(), `"type":"task.ended"`) })
	if _, last, ok := strings.Cut(got.Text, " Write to "); !ok || !regexp.MustCompile("^"+tokenPattern+" soon\\.$").MatchString(last) {
		t.Errorf("the value of two turns is %q", last)
	}
	if refused := models.Refused(); len(refused) > 0 {
		t.Errorf("the provider refused %s", refused)
	}

	// The server has every value unchanged.
	for _, p := range people {
		if server.got[p.ID] != p {
			t.Fatalf("the server received\n%+v, want\n%+v", server.got[p.ID], p)
		}
	}
	outcomes := make([]*run.Outcome, len(got.Runs))
	for i, id := range got.Runs {
		if outcomes[i], _, err = f.Runs().Recorded(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if paged := decoded[struct {
		Count int
		Bad   []string
	}](t, outcomes[0]); paged.Count != n || len(paged.Bad) > 0 {
		t.Errorf("the program sees %d customers; no tokens are %q", paged.Count, paged.Bad[:min(len(paged.Bad), 20)])
	}
	if joined := decoded[struct{ Joined int }](t, outcomes[1]); joined.Joined != n {
		t.Errorf("%d customers are joined, want %d", joined.Joined, n)
	}

	// For another user, the token of the first user is an ordinary text.
	bob, err := f.Runs().Execute(t.Context(), runs.Request{User: "bob", Code: `
		return [await callMCPTool('crm__echo', {how: 'plain', text: '[EMAIL_1] [SECRET_2] [EMAIL_' + 500 + ']'}), await fs.readdir('/workspace'),
		  await callMCPTool('crm__page', {page: 0})]`})
	if err != nil || !strings.Contains(string(bob.Output), `"it is [LITERAL_1] [LITERAL_2] [LITERAL_3].",[]`) {
		t.Errorf("another user's program got %+.400s, %v", bob.Output, err)
	}

	recording, err := recorder.Recording(t.Context(), f.Privacy().Redactor(), f.Runs().Journal)
	if err != nil {
		t.Fatal(err)
	}

	if turns := recording.Model.Turns; turns[len(turns)-1].Turn.Whole != got.Text {
		t.Errorf("the recording ends with %+v", turns[len(turns)-1].Turn)
	}

	events, err := s.Past(t.Context(), in.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := tracer.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	page := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/", nil))
	places := map[string][]byte{
		"the model": []byte(asked.String()), "the webhook": []byte(notified.String()), "the webhook of requests": []byte(told.String()), "the log": []byte(log.String()), "the traces": []byte(traced.String()),
		"the page of metrics": page.Body.Bytes(),
	}
	for place, v := range map[string]any{
		"the events": events, "the task": got, "the request for an approval": requests, "outcomes": outcomes, "another user": bob, "the recording": recording,
	} {
		if places[place], err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range got.Runs {
		if places["the journal of "+id], err = json.Marshal(f.journalOf(id)); err != nil {
			t.Fatal(err)
		}
	}
	files(t, dir, places)
	var values []string
	for _, p := range people {
		values = append(values, p.values()...)
	}
	values = append(append(values, invented.values()...), split)
	searchFor := leaktest.NewSearcher(t, values)
	size := 0
	for place, text := range places {
		size += len(text)
		for _, found := range searchFor.Find(text) {
			t.Errorf("%s has %s", place, found)
		}
		planted := slices.Concat(text[:len(text)/2], []byte(" "+values[len(text)%len(values)]+" "), text[len(text)/2:])
		if len(searchFor.Find(planted)) == 0 {
			t.Errorf("a value in %s is not found", place)
		}
		if !hasTokens(place, text) {
			t.Errorf("%s has no tokens: is it looked at? %.300s", place, text)
		}
	}
	t.Logf("%d values are not in %d places, %d bytes", len(values), len(places), size)
}

// files reads the files of a harness, except the key of its vault.
func files(t testing.TB, dir string, into map[string][]byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "pii.key" {
			return err
		}
		into[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// hasTokens reports whether a place contains tokens, or need not contain any.
func hasTokens(place string, text []byte) bool {
	name := filepath.Base(place)
	switch {
	case place == "the log":
		return bytes.Contains(text, []byte("[EMAIL]")) && bytes.Contains(text, []byte("[IBAN]"))
	case place == "the page of metrics", place == "the traces", name == "customers.js", name == "approvals.key", strings.HasPrefix(name, "harness.db"):
		return len(text) > 0 || name != "harness.db"
	case name == "shapes.json": // the structure of answers, without values and tokens
		return bytes.Contains(text, []byte(`"kinds"`)) && !isToken.Match(text)
	case name == "rich.csv", strings.HasPrefix(place, "the journal of "):
		return bytes.Contains(text, []byte("_"))
	}
	return isToken.Match(text)
}

// isToken matches the token of an e-mail address.
var isToken = regexp.MustCompile(`\[EMAIL_\d|pii_\d+e`)
