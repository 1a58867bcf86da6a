package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/jsontext"
	"mcp-code-exec-harness/internal/testing/generated"
)

// writer generates JSON values.
type writer struct {
	*rand.Rand
	odd bool // generate also values that JavaScript cannot represent as they are written
}

func (w writer) pick(all ...string) string { return all[w.IntN(len(all))] }

func (w writer) digits(n int) string {
	text := []byte{byte('1' + w.IntN(9))}
	for len(text) < n {
		text = append(text, byte('0'+w.IntN(10)))
	}
	return string(text)
}

func (w writer) number() string {
	sign := w.pick("", "", "-")
	n := w.IntN(12)
	if !w.odd {
		n %= 7
	}
	switch n {
	case 0:
		return sign + w.pick("0", "9007199254740991", "9007199254740992", "9007199254740993", "18446744073709551615", "0.0", "0e0", "1e21", "1E+2", "5e-324")
	case 1, 2:
		return sign + w.digits(1+w.IntN(15))
	case 3:
		return sign + w.digits(16+w.IntN(25)) // numbers up to 10^40
	case 4:
		return sign + w.digits(1+w.IntN(7)) + "." + w.digits(1+w.IntN(8)) + w.pick("", "0", "000")
	case 5:
		return sign + "0." + w.pick("", "0", "000000") + w.digits(1+w.IntN(9))
	case 6:
		return sign + w.digits(1) + w.pick("", ".5", ".25") + w.pick("e", "E") + w.pick("", "+", "-") + strconv.Itoa(w.IntN(300))
	case 7, 8:
		return sign + w.digits(1+w.IntN(12)) + "." + w.digits(16+w.IntN(10))
	case 9:
		return sign + w.pick("1e400", "17e307", "2.5E+999", "0.1e310")
	case 10:
		return sign + w.pick("1e-400", "3e-324", "0.30000000000000004441")
	}
	return sign + w.digits(20) + "e" + strconv.Itoa(w.IntN(20))
}

func (w writer) text() string {
	var b strings.Builder
	b.WriteByte('"')
	for range w.IntN(7) {
		b.WriteString(w.pick("a", "Z", "7", " ", "é", "日本", "😀", "\u2028", "<&>", `\"`, `\\`, `\/`, `\n`, `\u0000`, `\u001f`, `\u00e9`, `\ud83d\ude00`, `\uD83D\uDE00`, "12345678901234567890", "1e400", "#", "\ue000", "{", "]", ","))
		if w.odd && w.IntN(12) == 0 {
			b.WriteString(w.pick(`\ud83d`, `\uDE00`, `\ud800x`))
		}
	}
	b.WriteByte('"')
	return b.String()
}

// value returns a value without insignificant whitespace.
func (w writer) value(depth int) string {
	switch n := w.IntN(10); {
	case depth == 0 && w.IntN(200) == 0:
		deep := 20 + w.IntN(100)
		return strings.Repeat(`[{"d":`, deep) + w.number() + strings.Repeat("}]", deep)
	case n < 2 && depth < 5:
		items := make([]string, w.IntN(4))
		for i := range items {
			items[i] = w.value(depth + 1)
		}
		return "[" + strings.Join(items, ",") + "]"
	case n < 4 && depth < 5:
		return w.object(depth)
	case n < 7:
		return w.number()
	case n == 7:
		return w.pick("null", "true", "false")
	}
	return w.text()
}

func (w writer) object(depth int) string {
	keys := []string{
		`"a"`, `"A"`, `"а"`, `"a "`, `"á"`, `"a\u0301"`, `"__proto__"`, `"constructor"`, `"toJSON"`, `"then"`, `"length"`, `""`, `"$content"`, `"-1"`, `"01"`, `"1.5"`, `"é"`, `"\u0000"`, `"😀"`, `"4294967296"`, `"\\"`,
	}
	if w.odd {
		keys = append(keys, `"0"`, `"10"`, `"9"`, `"4294967294"`, `"\u0061"`, `"\ud800"`)
	} else if w.IntN(10) == 0 {
		keys = []string{`"0"`, `"9"`, `"10"`, `"4294967294"`} // in the order of their indexes
	}
	shuffled := slices.Clone(keys)
	if !slices.Contains(keys, `"9"`) || w.odd {
		w.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	}
	var members []string
	for _, key := range shuffled[:w.IntN(5)] {
		members = append(members, key+":"+w.value(depth+1))
	}
	if w.odd && len(members) > 0 && w.IntN(20) == 0 {
		members = append(members, members[0][:strings.Index(members[0], ":")]+":"+w.number())
	}
	return "{" + strings.Join(members, ",") + "}"
}

// tree is a JSON value with its numbers as they are written.
type tree struct {
	kind    byte // one of '{', '[', '"', '0' and 'n'
	text    string
	members []struct {
		name  string
		value tree
	}
	items []tree
}

// parseTree parses a valid text without whitespace. Strings become sequences of UTF-16 code units of two bytes each.
func parseTree(text []byte, at int) (tree, int) {
	switch c := text[at]; c {
	case '{', '[':
		t := tree{kind: c}
		for at++; text[at] != c+2; {
			if text[at] == ',' {
				at++
			}
			var item tree
			if c == '{' {
				var name tree
				name, at = parseTree(text, at)
				item, at = parseTree(text, at+1)
				t.members = append(t.members, struct {
					name  string
					value tree
				}{name.text, item})
				continue
			}
			item, at = parseTree(text, at)
			t.items = append(t.items, item)
		}
		return t, at + 1
	case '"':
		var units []byte
		end := jsontext.End(text, at)
		inner := string(text[at+1 : end-1])
		for inner != "" {
			if strings.HasPrefix(inner, `\u`) {
				unit, _ := strconv.ParseUint(inner[2:6], 16, 16)
				units, inner = append(units, byte(unit>>8), byte(unit)), inner[6:]
				continue
			}
			size := strings.IndexByte(inner[1:], '\\') + 1
			if size == 0 {
				size = len(inner)
			}
			if inner[0] == '\\' {
				size = 2
			}
			var plain string
			_ = json.Unmarshal([]byte(`"`+inner[:size]+`"`), &plain) // the text has no lone surrogate
			for _, unit := range utf16.Encode([]rune(plain)) {
				units = append(units, byte(unit>>8), byte(unit))
			}
			inner = inner[size:]
		}
		return tree{kind: '"', text: string(units)}, end
	}
	end := jsontext.End(text, at)
	kind := byte('n')
	if strings.IndexByte("-0123456789", text[at]) >= 0 {
		kind = '0'
	}
	return tree{kind: kind, text: string(text[at:end])}, end
}

// told says which changes of values a run has reported.
type told struct{ rounded, huge, reordered, equal bool }

func toldBy(logs string) told {
	return told{
		strings.Contains(logs, "more digits than a JavaScript number holds"), strings.Contains(logs, "beyond the range of JavaScript numbers"),
		strings.Contains(logs, "integer keys"), strings.Contains(logs, "has twice"),
	}
}

// differs describes the first difference between two values that was not reported. It returns "" if there is none.
func (may told) differs(path string, want, got tree) string {
	switch {
	case want.kind == '0' && got.kind == '0':
		if jsontext.SameNumber(want.text, got.text) {
			return ""
		}
		double, _ := strconv.ParseFloat(want.text, 64)
		if back, _ := json.Marshal(double); may.rounded && jsontext.SameNumber(string(back), got.text) {
			return ""
		}
	case want.kind == '0' && got.kind == '"' && may.huge:
		if quoted, _ := parseTree([]byte(`"`+want.text+`"`), 0); quoted.text == got.text {
			return ""
		}
	case want.kind != got.kind:
	case want.kind == '[':
		if len(want.items) != len(got.items) {
			break
		}
		for i := range want.items {
			if d := may.differs(fmt.Sprintf("%s[%d]", path, i), want.items[i], got.items[i]); d != "" {
				return d
			}
		}
		return ""
	case want.kind == '{':
		if may.equal {
			want = want.unique()
		}
		if may.reordered {
			want = want.reordered()
		}
		if len(want.members) != len(got.members) {
			break
		}
		for i := range want.members {
			if want.members[i].name != got.members[i].name {
				return fmt.Sprintf("%s: member %d is %q, was %q", path, i, got.members[i].name, want.members[i].name)
			}
			if d := may.differs(fmt.Sprintf("%s.%d", path, i), want.members[i].value, got.members[i].value); d != "" {
				return d
			}
		}
		return ""
	case want.text == got.text:
		return ""
	}
	return fmt.Sprintf("%s is %.300v, was %.300v", path, got, want)
}

// unique returns an object in which the last of equal keys wins, as in JavaScript.
func (t tree) unique() tree {
	out := tree{kind: t.kind}
	for _, m := range t.members {
		at := slices.IndexFunc(out.members, func(o struct {
			name  string
			value tree
		},
		) bool {
			return o.name == m.name
		})
		if at >= 0 {
			out.members[at].value = m.value
		} else {
			out.members = append(out.members, m)
		}
	}
	return out
}

// reordered returns an object with its keys in the order of JavaScript.
func (t tree) reordered() tree {
	index := func(name string) (uint64, bool) {
		plain := strings.ReplaceAll(name, "\x00", "")
		n, err := strconv.ParseUint(plain, 10, 32)
		return n, err == nil && n < 1<<32-1 && strconv.FormatUint(n, 10) == plain && 2*len(plain) == len(name)
	}
	out := tree{kind: t.kind, members: slices.Clone(t.members)}
	slices.SortStableFunc(out.members, func(a, b struct {
		name  string
		value tree
	},
	) int {
		x, is := index(a.name)
		y, too := index(b.name)
		switch {
		case is && too:
			return int(int64(x) - int64(y))
		case is:
			return -1
		case too:
			return 1
		}
		return 0
	})
	return out
}

// echoes are an MCP server and an HTTP service that answer with a given text, byte by byte, and record what they receive.
type echoes struct {
	mu     sync.Mutex
	says   string   // JSON object in the answers
	answer string   // result of the tool load; empty: a result with says
	got    []string // received arguments of store, and request bodies
}

func (e *echoes) set(says string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.says, e.got = says, nil
}

func (e *echoes) taken() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.got)
}

// mcp answers a JSON-RPC request.
func (e *echoes) mcp(w http.ResponseWriter, r *http.Request) {
	var req struct {
		ID     json.RawMessage
		Method string
		Params struct {
			ProtocolVersion string
			Name            string
			Arguments       json.RawMessage
		}
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&req) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if req.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := "{}"
	e.mu.Lock()
	defer e.mu.Unlock()
	switch req.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"store","inputSchema":{"type":"object"}},{"name":"load","inputSchema":{"type":"object"}},{"name":"say","inputSchema":{"type":"object"}},` +
			`{"name":"word","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"result":{"type":"string"}},"required":["result"],"x-fastmcp-wrap-result":true}}]}`
	case "tools/call":
		switch req.Params.Name {
		case "store":
			e.got = append(e.got, string(req.Params.Arguments))
			result = `{"content":[{"type":"text","text":"ok"}]}`
		case "load", "word":
			if result = e.answer; result == "" {
				result = `{"content":[],"structuredContent":` + e.says + `}`
			}
		case "say":
			quoted, _ := json.Marshal(e.says)
			result = `{"content":[{"type":"text","text":` + string(quoted) + `}]}`
		}
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, req.ID)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, result)
}

func (e *echoes) http(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, e.says)
		return
	}
	body, _ := io.ReadAll(r.Body)
	e.got = append(e.got, string(body))
	_, _ = io.WriteString(w, `{"ok":true}`)
}

// valuesWorld configures the echoes as the servers up and api.
func valuesWorld(t *testing.T) (*fixture, *echoes) {
	e := &echoes{}
	up, api := httptest.NewServer(http.HandlerFunc(e.mcp)), httptest.NewServer(http.HandlerFunc(e.http))
	t.Cleanup(up.Close)
	t.Cleanup(api.Close)
	f := setup(t)
	f.write("api.json", `{"openapi":"3.0.3","info":{"title":"Values","version":"1"},"paths":{"/values":{"get":{"operationId":"load","responses":{"200":{"description":"all"}}},`+
		`"post":{"operationId":"store","requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"object"}}}},"responses":{"200":{"description":"ok"}}}}}}`)
	f.write("harness.yaml", "pii: {enabled: false}\nmcp: {mode: direct}\nsandbox: {maxOutput: 16MiB, timeout: 5m}\nmcpServers:\n  up: {url: "+quoted(up.URL)+"}\n"+
		"  api: {type: openapi, openapi: ./api.json, url: "+quoted(api.URL)+"}\n")
	return f, e
}

// TestValuesPassUnchanged passes generated JSON through an input, the arguments and answers of MCP servers and HTTP services, the output of a program, and
// direct calls of clients. Values may change only in the ways that the run reports.
func TestValuesPassUnchanged(t *testing.T) {
	t.Parallel()
	batch := generated.Count(1000, 5000)
	batches := generated.Count(2, 10)
	seed := generated.Seed(t)
	f, e := valuesWorld(t)
	client := f.client("mcp")
	check := func(what string, may told, want, got string) {
		t.Helper()
		if !json.Valid([]byte(got)) {
			t.Fatalf("%s: no JSON: %.200s", what, got)
		}
		a, _ := parseTree([]byte(want), 0)
		b, _ := parseTree(compactJSON(got), 0)
		if d := may.differs("$", a, b); d != "" {
			t.Errorf("%s (told %+v): %s", what, may, d)
		}
	}
	program := f.write("program.js", `
		const structured = await tools.up.load({})
		const text = await tools.up.say({})
		const http = await tools.api.load({})
		await tools.up.store(input)
		await tools.api.store({ body: structured })
		await callMCPTool('up__store', JSON.parse(JSON.stringify(text)))
		return [input, structured, text, http]`)
	for _, tier := range []string{"wasm", "process"} {
		for _, odd := range []bool{false, true} {
			for i := range batches {
				w := writer{rand.New(rand.NewPCG(seed, uint64(i))), odd}
				values := make([]string, batch)
				for i := range values {
					values[i] = w.value(0)
				}
				all := `{"v":[` + strings.Join(values, ",") + `]}`
				e.set(all)
				f.write("input.json", all)
				r := f.run("exec", "--json", "--sandbox", tier, "--input", "input.json", program)
				if tier == "process" && r.code == 3 {
					t.Logf("no process tier: %s", r.stderr)
					break
				}
				var out outcome
				r.want(0).value(&out)
				var logs []string
				for _, line := range out.Logs {
					logs = append(logs, line.Text)
				}
				may := toldBy(strings.Join(logs, "\n"))
				if !odd && may != (told{}) {
					t.Errorf("%s: told without a reason: %q", tier, logs)
				}
				got, stored := []json.RawMessage{}, e.taken()
				if err := json.Unmarshal(out.Output, &got); err != nil || len(got) != 4 || len(stored) != 3 {
					t.Fatalf("%s: %d values, %d stored, %v", tier, len(got), len(stored), err)
				}
				for i, what := range []string{"the input", "structured content", "a text", "an answer over HTTP"} {
					check(tier+": "+what, may, all, string(got[i]))
				}
				for i, what := range []string{"arguments", "a body", "arguments from a text"} {
					check(tier+": "+what, may, all, stored[i])
				}
				if tier == "wasm" && !t.Failed() {
					direct(t, e, client, check, all)
				}
				if t.Failed() {
					t.Fatalf("the batch is %d of the seed %d, odd %t", i, seed, odd)
				}
			}
		}
	}
}

// TestContentBesideStructure checks answers with content beside their structured content. If the structured content does not include that content, the result
// has it in the property $content, and the run reports this.
func TestContentBesideStructure(t *testing.T) {
	t.Parallel()
	f, e := valuesWorld(t)
	const image = `{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}`
	text := func(s string) string {
		quoted, _ := json.Marshal(s)
		return `{"type":"text","text":` + string(quoted) + `}`
	}
	result := func(structured string, blocks ...string) string {
		return `{"content":[` + strings.Join(blocks, ",") + `],"structuredContent":` + structured + `}`
	}
	const file = `{"path":"plan.md","size":31,"lines":["a","b"]}`
	for name, c := range map[string]struct{ tool, answer, want, said string }{
		"a text of its own":       {"load", result(file, text("# Plan\n\nWe ship on Monday.")), `[` + file + `,"# Plan\n\nWe ship on Monday."]`, "$content"},
		"data of its own":         {"load", result(file, text(`{"body":[1,12345678901234567890]}`)), `[` + file + `,{"body":[1,12345678901234567890]}]`, "$content"},
		"several texts":           {"load", result(file, text("one"), text(file), text("two")), `[` + file + `,["one","two"]]`, "$content"},
		"an array":                {"load", result(`[1,2]`, text("two numbers")), `[[1,2],"two numbers"]`, "$content"},
		"a link":                  {"load", result(file, `{"type":"resource_link","uri":"file:///x","name":"x"}`), `[` + file + `,{"type":"resource_link","uri":"file:///x","name":"x"}]`, "$content"},
		"the same, otherwise":     {"load", result(file, text("{\n  \"lines\": [\"a\", \"b\"],\n  \"size\": 31.0, \"path\": \"plan.md\"}")), `[` + file + `,null]`, ""},
		"a text that is in it":    {"load", result(`{"content":"the body\n","n":1}`, text("the body\n")), `[{"content":"the body\n","n":1},null]`, ""},
		"items as texts":          {"load", result(`{"result":[{"a":1},"x",2]}`, text(`{"a": 1}`), text("x"), text("2")), `[{"result":[{"a":1},"x",2]},null]`, ""},
		"nothing":                 {"load", result(file, text("")), `[` + file + `,null]`, ""},
		"the same word":           {"word", result(`{"result":"yes"}`, text("yes")), `["yes",null]`, ""},
		"a word, and a text":      {"word", result(`{"result":"yes"}`, text("no")), `["yes",null]`, "callMCPTool.raw('up__word', input)"},
		"half of a pair":          {"load", `{"content":[{"type":"text","text":"a\ud83d"}]}`, `["a\ud83d",null]`, ""},
		"half of a pair, in JSON": {"load", `{"content":[{"type":"text","text":"{\"a\":\"\\ud83d\"}"}]}`, `[{"a":"\ud83d"},null]`, ""},
	} {
		e.set("")
		e.answer = c.answer
		var out outcome
		f.run("exec", "--json", "-e", "const r = await tools.up."+c.tool+"({}); await tools.up."+c.tool+"({}); return [r, r.$content ?? null]").want(0).value(&out)
		if string(out.Output) != c.want {
			t.Errorf("%s: %s, want %s", name, out.Output, c.want)
		}
		said := 0
		for _, line := range out.Logs {
			if strings.Contains(line.Text, "structured content does not have") && strings.Contains(line.Text, c.said) {
				said++
			}
		}
		if want := map[bool]int{false: 1, true: 0}[c.said == ""]; said != want {
			t.Errorf("%s: said %d times, want %d: %q", name, said, want, out.Logs)
		}
	}
	e.answer = result(file, text("see the picture"), image)
	var out outcome
	f.run("exec", "--json", "-e", `
		const r = await tools.up.load({})
		const again = await tools.up.load({})
		return [Object.keys(r), r.$content[0], fs.readFileSync(r.$content[1].file).length, r.$content[1].mimeType, again.$content.length]`).want(0).value(&out)
	if string(out.Output) != `[["path","size","lines"],"see the picture",8,"image/png",2]` {
		t.Errorf("an image beside structured content: %s", out.Output)
	}
	called := f.run("tools", "call", "up__load", "{}").want(0)
	if !strings.Contains(called.stdout, "plan.md") || !strings.Contains(called.stdout+called.stderr, "$content") {
		t.Errorf("tools call: %s %s", called.stdout, called.stderr)
	}
}

// direct passes values through direct calls of a client. Nothing may change, and an object with equal keys is refused.
func direct(t *testing.T, e *echoes, client *lineClient, check func(what string, may told, want, got string), all string) {
	t.Helper()
	e.set(all)
	var loaded struct{ StructuredContent json.RawMessage }
	client.call("up__load", "{}", &loaded)
	check("direct: structured content", told{}, all, string(loaded.StructuredContent))
	var said struct{ Content []struct{ Text string } }
	client.call("say", "{}", &said)
	check("direct: a text", told{}, all, said.Content[0].Text)
	var answer struct {
		IsError bool
		Content []struct{ Text string }
	}
	client.call("up__store", all, &answer)
	stored := e.taken()
	if equal := jsontext.Look([]byte(all)).Equal; equal != "" {
		if !answer.IsError || !strings.Contains(answer.Content[0].Text, "twice") || len(stored) > 0 {
			t.Errorf("direct: equal keys at %s: %+v, %d stored", equal, answer, len(stored))
		}
		return
	}
	if len(stored) != 1 {
		t.Fatalf("direct: %d stored: %+v", len(stored), answer)
	}
	check("direct: arguments", told{}, all, stored[0])
}

// compactJSON returns a valid JSON text without insignificant whitespace.
func compactJSON(text string) []byte {
	var b strings.Builder
	inString := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			b.WriteByte(c)
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == ' ' || c == '\n' || c == '\t' || c == '\r'):
			continue
		}
		b.WriteByte(text[i])
	}
	return []byte(b.String())
}

// lineClient is an MCP client over standard input and output that sends and receives raw lines.
type lineClient struct {
	t     testing.TB
	to    io.Writer
	lines *bufio.Reader
	last  int
}

// client starts a command in this process that serves MCP over standard input and output, and connects to it.
func (f *fixture) client(args ...string) *lineClient {
	f.t.Helper()
	in, to := io.Pipe()
	from, out := io.Pipe()
	w := f.world(args, "", out, io.Discard)
	w.Stdin = in
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cli.Main(f.t.Context(), w)
		_ = out.Close()
		_ = in.Close()
	}()
	f.t.Cleanup(func() {
		_ = to.Close()
		_, _ = io.Copy(io.Discard, from)
		<-ended
	})
	c := &lineClient{t: f.t, to: to, lines: bufio.NewReaderSize(from, 1<<20)}
	var got json.RawMessage
	c.request("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`, &got)
	_, _ = fmt.Fprintln(to, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.request("tools/list", "{}", &got)
	return c
}

// call calls a tool. args is sent unchanged.
func (c *lineClient) call(tool, args string, into any) {
	c.t.Helper()
	c.request("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args), into)
}

// request sends a request and decodes its result.
func (c *lineClient) request(method, params string, into any) {
	c.t.Helper()
	c.last++
	if _, err := fmt.Fprintf(c.to, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.last, method, params); err != nil {
		c.t.Fatal(err)
	}
	for {
		line, err := c.lines.ReadBytes('\n')
		if err != nil {
			c.t.Fatalf("%s: %v", method, err)
		}
		var m struct {
			ID            int
			Method        string
			Result, Error json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil {
			c.t.Fatalf("%s: %v: %.200s", method, err, line)
		}
		if m.ID != c.last || m.Method != "" {
			continue
		}
		if m.Error != nil {
			c.t.Fatalf("%s: %s", method, m.Error)
		}
		if err := json.Unmarshal(m.Result, into); err != nil {
			c.t.Fatalf("%s: %v: %.200s", method, err, m.Result)
		}
		return
	}
}
