package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/jsontext"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/simulation"
	"mcp-code-exec-harness/internal/task"
)

//go:embed templates
var templateFiles embed.FS

// templates returns a template set for each page: the page's own file, and the frame around it.
var templates = sync.OnceValue(func() map[string]*template.Template {
	frame := template.Must(template.New("").Funcs(functions).ParseFS(templateFiles, "templates/frame.html", "templates/parts.html"))
	all := map[string]*template.Template{}
	files, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err)
	}
	for _, f := range files {
		all[strings.TrimSuffix(f.Name(), ".html")] = template.Must(template.Must(frame.Clone()).ParseFS(templateFiles, "templates/"+f.Name()))
	}
	return all
})

// maxShown is the number of bytes of a value or text that a page shows.
const maxShown = 64 << 10

// functions are the functions of templates. Texts from outside must pass through text or value, which make hidden characters visible.
var functions = template.FuncMap{
	"text": func(s any) string { return clip.Visible(clip.Counted(fmt.Sprint(s), maxShown)) },
	"line": func(s any) string {
		return clip.Visible(clip.Words(strings.Join(strings.Fields(fmt.Sprint(s)), " "), 160))
	},
	"value":    value,
	"time":     moment,
	"took":     took,
	"size":     size,
	"lower":    strings.ToLower,
	"escape":   url.PathEscape,
	"segments": func(p string) string { return (&url.URL{Path: p}).EscapedPath() },
	"status":   func(s any) string { return strings.ReplaceAll(fmt.Sprint(s), "_", " ") },
	"count": func(n int, one string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %ss", n, one)
	},
	"digest":    func(r approval.Request) string { return r.Sight().Digest },
	"add":       func(a, b int) int { return a + b },
	"usd":       func(cost *float64) string { return dollars(*cost) },
	"many":      many,
	"codelines": codeLines,
	"failed":    failedAt,
	"difflines": diffLines,
	"differs":   func(what string) string { return cmp.Or(differ[what], what) },
	"tookof": func(c *runs.CallLine) string {
		if c.Answered == nil {
			return "–"
		}
		return took(c.Answered.Sub(c.Began))
	},
	"whole":    func(of any) bool { return len(pretty(of)) <= maxShown },
	"fields":   fields,
	"happened": func(kind string) string { return cmp.Or(happened[kind], kind) },
	"nav":      func() []section { return sections },
	"source":   func(name string) string { return cmp.Or(sourceNames[name], clip.Visible(clip.Words(name, 160))) },
	"rules":    func(title string, rules []api.PolicyRule) any { return map[string]any{"Title": title, "Rules": rules} },
	"roles":    func() []auth.Role { return []auth.Role{auth.User, auth.Approver, auth.Admin, auth.Anonymous} },
}

// section is a section of the dashboard.
type section struct{ Name, Title, Path string }

var sections = []section{
	{"now", "Now", "/"},
	{"tasks", "Tasks", "/tasks"},
	{"runs", "Runs", "/runs"},
	{"approvals", "Approvals", "/approvals"},
	{"doubts", "In doubt", "/doubts"},
	{"tools", "Tools", "/tools"},
	{"servers", "Servers", "/servers"},
	{"sessions", "Sessions", "/sessions"},
	{"skills", "Skills", "/skills"},
	{"schedules", "Schedules", "/schedules"},
	{"policy", "Policy", "/policy"},
	{"privacy", "Privacy", "/privacy"},
	{"usage", "Usage", "/usage"},
	{"audit", "Audit", "/audit"},
	{"keys", "Keys", "/keys"},
	{"doctor", "Doctor", "/doctor"},
}

// happened maps kinds of events of a task to words.
var happened = map[string]string{
	task.EventTurn: "The model", task.EventRunStarted: "A program begins", task.EventRunEnded: "The program has ended", task.EventNote: "The harness tells the model", task.EventEnded: "The task has ended",
	task.EventApprovalRequested: "A person is asked", task.EventApprovalDecided: "A person has decided", task.EventLog: "The program's console",
}

// sourceNames maps the sources of values to words, except the sources that are tools.
var sourceNames = map[string]string{"user": "the user", "code": "the text of the program", "computed": "computed by the program", simulation.Unknown: "unknown"}

// differ maps differences between two calls to words.
var differ = map[string]string{
	runs.SameCall: "same", runs.OtherArguments: "other arguments", runs.OtherAnswer: "another answer", runs.OnlyFirst: "only in the first", runs.OnlySecond: "only in the second",
}

// field is an argument of a call.
type field struct{ Name, Value string }

// maxFields is the maximum number of fields that a page shows for the arguments of a call.
const maxFields = 100

// fields returns the arguments of a call as separate fields in their order, so that a text is shown as text. It splits an argument that
// contains a text of several lines into its parts.
func fields(args json.RawMessage) (all []field) {
	for name, v := range jsontext.Members(args) {
		all = partsOf(all, name, args[v.From:v.End], 4)
	}
	return all
}

// partsOf appends a value, or its parts down to the given number of levels.
func partsOf(all []field, path string, of json.RawMessage, levels int) []field {
	if levels == 0 || len(all) >= maxFields || !bytes.Contains(of, []byte(`\n`)) {
		return append(all, field{path, value(of)})
	}
	switch of[0] {
	case '{':
		for name, v := range jsontext.Members(of) {
			all = partsOf(all, path+"."+name, of[v.From:v.End], levels-1)
		}
	case '[':
		var items []json.RawMessage
		_ = json.Unmarshal(of, &items) // cannot fail: the value is an array
		for i, item := range items {
			all = partsOf(all, path+"["+strconv.Itoa(i)+"]", item, levels-1)
		}
	default:
		all = append(all, field{path, value(of)})
	}
	return all
}

// codeLine is a line of a program.
type codeLine struct {
	Text   string
	Failed bool // reports whether the error of the run comes from this line
}

// codeLines returns the lines of a program. It returns the result of failedAt unchanged.
func codeLines(code any) (all []codeLine) {
	if lines, ok := code.([]codeLine); ok {
		return lines
	}
	for line := range strings.SplitSeq(clip.Visible(clip.Counted(fmt.Sprint(code), maxShown)), "\n") {
		all = append(all, codeLine{line, false})
	}
	return all
}

// failedAt returns the lines of a program and marks the line of an error. The error may be in another file, so failedAt marks the line only if the line begins
// with the source text in the error.
func failedAt(code string, e *run.Error) []codeLine {
	all := codeLines(code)
	if e == nil || e.Line <= 0 || e.Line > len(all) {
		return all
	}
	source := strings.TrimSpace(strings.TrimSuffix(clip.Visible(e.Source), "…"))
	line := &all[e.Line-1]
	line.Failed = source != "" && strings.HasPrefix(strings.TrimSpace(line.Text), source)
	return all
}

// diffLine is a line of a unified difference.
type diffLine struct{ Kind, Text string }

func diffLines(diff string) (all []diffLine) {
	kinds := map[byte]string{'+': "added", '-': "removed", '@': "hunk", '\\': "hunk"}
	for line := range strings.Lines(clip.Counted(diff, maxShown)) {
		all = append(all, diffLine{cmp.Or(kinds[line[0]], "kept"), clip.Visible(strings.TrimSuffix(line, "\n"))})
	}
	return all
}

// value returns a JSON value as indented text, with hidden characters made visible.
func value(raw any) string { return clip.Visible(clip.Counted(pretty(raw), maxShown)) }

// pretty returns a JSON value as indented text, and a string as its text. It does not indent a value that is much longer than a page shows.
func pretty(raw any) string {
	text, ok := raw.(json.RawMessage)
	if !ok {
		var err error
		if text, err = json.Marshal(raw); err != nil {
			return err.Error()
		}
	}
	if len(text) == 0 {
		return ""
	}
	var s string
	if text[0] == '"' && json.Unmarshal(text, &s) == nil {
		return s
	}
	var b bytes.Buffer
	if len(text) > 16*maxShown || json.Indent(&b, text, "", "  ") != nil {
		return string(text)
	}
	return b.String()
}

// moment returns a time in UTC as HTML. The script adds the local time.
func moment(t any) template.HTML {
	var at time.Time
	switch t := t.(type) {
	case time.Time:
		at = t
	case *time.Time:
		if t != nil {
			at = *t
		}
	}
	if at.IsZero() {
		return "–"
	}
	at = at.UTC()
	return template.HTML(`<time datetime="` + at.Format(time.RFC3339Nano) + `">` + at.Format("2006-01-02 15:04:05") + ` UTC</time>`) //nolint:gosec // digits only
}

// took returns a duration with three digits.
func took(d any) string {
	var span time.Duration
	switch d := d.(type) {
	case time.Duration:
		span = d
	case run.Millis:
		span = time.Duration(d)
	case float64: // milliseconds
		span = time.Duration(d * float64(time.Millisecond))
	}
	switch {
	case span < time.Millisecond:
		return fmt.Sprintf("%d µs", span.Microseconds())
	case span < time.Second:
		return fmt.Sprintf("%.3g ms", float64(span.Microseconds())/1000)
	case span < time.Minute:
		return fmt.Sprintf("%.3g s", span.Seconds())
	}
	return span.Round(time.Second).String()
}

// size returns a number of bytes with a unit.
func size(n any) string {
	var bytes int64
	switch n := n.(type) {
	case int:
		bytes = int64(n)
	case int64:
		bytes = n
	}
	switch {
	case bytes < 1<<10:
		return fmt.Sprintf("%d B", bytes)
	case bytes < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

// view is the data of a template.
type view struct {
	Title string
	Nav   string // name of the current section
	Live  bool   // reports whether the page is refreshed while it is shown
	// Stream is the address of the events that a live page follows; if it is empty, the script loads the page again.
	Stream string
	Body   any

	Me      caller
	Form    string // token of the forms
	Waiting int    // number of waiting approvals
	More    bool   // reports whether more approvals wait than were counted
	Version string
	Path    string // address of this page
	Done    string // sentence about the result of the last form
}

// done maps the parameter of a redirect after a form to the sentence that the page shows.
var done = map[string]string{
	"approved": "Approved: the run goes on.", "denied": "Denied: the program is told.", "settled": "What you said is recorded.", "cancelled": "The task is being cancelled.",
	"added": "The server was added until the harness stops.", "reconnect": "The server is connected again.", "remove": "The server was removed.",
	"review": "What was held is approved.", "uploaded": "The files are stored.", "ended": "The schedule has ended.",
	"verified": "The audit log was verified.", "revoked": "The key has ended.",
	"restore": "The version is the content of the skill again.", "promote": "The skill is a tool of MCP clients.", "demote": "The skill is no tool any more.",
}

// show renders a page of the dashboard.
func (v *visit) show(name string, of view) error { return v.render(http.StatusOK, name, of) }

// render renders a complete page before sending it. It does not send a page that the browser already has.
func (v *visit) render(status int, name string, of view) error {
	of.Me, of.Version, of.Path, of.Done = v.me, v.s.opt.Version, v.r.URL.Path, done[v.r.URL.Query().Get("done")]
	if v.reader.ID != "" {
		of.Form = v.s.sessions.formToken(v.reader)
		if list, err := read[approvalList](v, "/v1/approvals", "status", "waiting", "limit", "100"); err == nil {
			of.Waiting, of.More = len(list.Approvals), list.Next != ""
		}
	}
	var b bytes.Buffer
	if err := templates()[name].ExecuteTemplate(&b, "frame", of); err != nil {
		return err
	}
	http.NewResponseController(v.w).SetWriteDeadline(time.Now().Add(writeTime)) // The API requests of the page may have used up the earlier deadline.
	h := v.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	if status == http.StatusOK {
		sum := sha256.Sum256(b.Bytes())
		tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
		h.Set("ETag", tag)
		h.Set("Cache-Control", "private, no-cache, no-store")
		if v.r.Header.Get("If-None-Match") == tag {
			v.w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	v.w.WriteHeader(status)
	_, _ = v.w.Write(b.Bytes()) // the browser may be gone
	return nil
}

// fail shows an error. v is nil for a request that was refused before a reader was known.
func (s *Server) fail(w http.ResponseWriter, v *visit, status int, why error) {
	if v == nil || v.me.Principal == "" {
		v = &visit{s: s, w: w, r: &http.Request{URL: &url.URL{Path: "/"}, Header: http.Header{}}}
	}
	title := cmp.Or(http.StatusText(status), "Error")
	if err := v.render(status, "error", view{Title: title, Body: why.Error()}); err != nil {
		http.Error(w, title, status)
	}
}

// read reads a resource of the API at a path, as get does.
func read[T any](v *visit, path string, parameters ...string) (T, error) {
	var into T
	err := v.get(path, &into, parameters...)
	return into, err
}
