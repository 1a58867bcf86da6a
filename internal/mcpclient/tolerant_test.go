package mcpclient_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/mcpclient"
)

// script is a server over streamable HTTP that answers with given texts by method; ID stands for the id of the request. For other methods it answers like
// most servers.
type script struct {
	answers map[string]string
	write   func(w http.ResponseWriter, r *http.Request, method, answer string) // writes an answer; nil writes it as JSON

	mu      sync.Mutex
	cursors []string // cursors of the requests for lists
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var msg struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Cursor *string `json:"cursor"`
		} `json:"params"`
	}
	body, _ := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || json.Unmarshal(body, &msg) != nil || len(msg.ID) == 0 {
		w.WriteHeader(map[bool]int{true: http.StatusAccepted, false: http.StatusMethodNotAllowed}[r.Method == http.MethodPost])
		return
	}
	key := msg.Method
	if strings.HasSuffix(key, "/list") {
		cursor := "none"
		if msg.Params.Cursor != nil {
			cursor = fmt.Sprintf("%q", *msg.Params.Cursor)
		}
		s.mu.Lock()
		s.cursors = append(s.cursors, cursor)
		s.mu.Unlock()
		if _, has := s.answers[key+" "+cursor]; has {
			key += " " + cursor
		}
	}
	answer, ok := s.answers[key]
	switch {
	case ok:
	case msg.Method == "initialize":
		answer = `{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`
	case msg.Method == "tools/list":
		answer = `{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}}`
	default:
		answer = `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no such method"}}`
	}
	answer = strings.ReplaceAll(answer, "ID", string(msg.ID))
	if s.write != nil {
		s.write(w, r, msg.Method, answer)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answer)
}

// TestLooseAnswers: answers that the official clients accept, or that are easy to understand, are accepted. Other answers give an error in plain words.
func TestLooseAnswers(t *testing.T) {
	t.Parallel()
	result := func(result string) string { return `{"jsonrpc":"2.0","id":ID,"result":` + result + `}` }
	const image = "iVBORw0KGgo="
	for name, c := range map[string]struct{ answer, want string }{
		"an id as a text":                      {`{"jsonrpc":"2.0","id":"ID","result":{"content":[{"type":"text","text":"hi"}]}}`, `text hi`},
		"an id with a fraction":                {`{"jsonrpc":"2.0","id":ID.0,"result":{"content":[{"type":"text","text":"hi"}]}}`, `text hi`},
		"a byte order mark":                    {"\ufeff" + result(`{"content":[{"type":"text","text":"hi"}]}`), `text hi`},
		"a batch":                              {`[{"jsonrpc":"2.0","method":"notifications/message","params":{}},` + result(`{"content":[{"type":"text","text":"hi"}]}`) + `]`, `text hi`},
		"an error beside the result":           {`{"jsonrpc":"2.0","id":ID,"error":null,"result":{"content":[{"type":"text","text":"hi"}]}}`, `text hi`},
		"more members":                         {`{"jsonrpc":"2.0","id":ID,"took":3,"result":{"content":[{"type":"text","text":"hi"}]}}`, `text hi`},
		"a text that is a number":              {result(`{"content":[{"type":"text","text":42}]}`), `text 42`},
		"a text of many digits":                {result(`{"content":[{"type":"text","text":12345678901234567890.10}]}`), `text 12345678901234567890.10`},
		"a text that is null":                  {result(`{"content":[{"type":"text","text":null}]}`), `text `},
		"a text that is an object":             {result(`{"content":[{"type":"text","text":{"b":1,"a":2}}]}`), `text {"b":1,"a":2}`},
		"a block without type":                 {result(`{"content":[{"text":"hi"}]}`), `text hi`},
		"a block that is a text":               {result(`{"content":["hi","you"]}`), `text hi; text you`},
		"a block that is null":                 {result(`{"content":[null,{"type":"text","text":"hi"}]}`), `text hi`},
		"one block":                            {result(`{"content":{"type":"text","text":"hi"}}`), `text hi`},
		"content that is a text":               {result(`{"content":"hi"}`), `text hi`},
		"content that is null":                 {result(`{"content":null}`), ``},
		"an unknown block":                     {result(`{"content":[{"type":"video","x":1}]}`), `video `},
		"null fields":                          {result(`{"content":[{"type":"text","text":"hi","annotations":null,"_meta":null}],"structuredContent":null,"isError":null,"_meta":null}`), `text hi`},
		"no content":                           {result(`{"temperature":12,"unit":"C"}`), `{"temperature":12,"unit":"C"}`},
		"nothing":                              {result(`{}`), ``},
		"nothing but its type":                 {result(`{"resultType":"complete","_meta":{"x":1}}`), ``},
		"null":                                 {result(`null`), ``},
		"an old result":                        {result(`{"toolResult":[1,2]}`), `[1,2]`},
		"an error as a text":                   {result(`{"content":[{"type":"text","text":"no"}],"isError":"true"}`), `failed: text no`},
		"an error as a number":                 {result(`{"content":[{"type":"text","text":"no"}],"isError":1}`), `failed: text no`},
		"no error as a text":                   {result(`{"content":[{"type":"text","text":"hi"}],"isError":"false"}`), `text hi`},
		"an image as a data URL":               {result(`{"content":[{"type":"image","data":"data:image/png;base64,` + image + `","mimeType":"image/png"}]}`), `image ` + image + ` image/png`},
		"an image that only its URL describes": {result(`{"content":[{"type":"image","data":"DATA:image/gif;base64,` + image + `"}]}`), `image ` + image + ` image/gif`},
		"an image in lines":                    {result(`{"content":[{"type":"image","data":"iVBO\n Rw0K\r\n\tGgo=","mimeType":"image/png"}]}`), `image ` + image + ` image/png`},
		"an image in base64 for URLs":          {result(`{"content":[{"type":"image","data":"-_-_","mimeType":"image/png"}]}`), `image +/+/ image/png`},
		"a drawing in its URL":                 {result(`{"content":[{"type":"image","data":"data:image/svg+xml,%3Csvg/%3E"}]}`), `image PHN2Zy8+ image/svg+xml`},
		"an error that is a text":              {`{"jsonrpc":"2.0","id":ID,"error":"out of paper"}`, `rpc -32603 out of paper`},
		"an error with a code as a text":       {`{"jsonrpc":"2.0","id":ID,"error":{"code":"-32602","message":"zeta is missing"}}`, `rpc -32602 zeta is missing`},
		"an error without id":                  {`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"cannot parse"}}`, `rpc -32700 cannot parse`},
		"a result that is a text":              {result(`"done"`), `protocol answered: it answered, but the result is not an object: "\"done\""; what the tool does is done`},
		"a result that is a list":              {result(`[1]`), `protocol answered: it answered, but the result is not an object: "[1]"; what the tool does is done`},
		"a list that is no message":            {`[1]`, `protocol in doubt: the server answered with an invalid message: it is not a JSON object: "1"`},
		"another version of JSON-RPC":          {`{"jsonrpc":"1.0","id":ID,"result":{}}`, `it is neither a request nor an answer of JSON-RPC 2.0`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := setup(t, mcpclient.Options{}, serve(t, &script{answers: map[string]string{"tools/call": c.answer}}))
			res, err := call(t, m, "echo", `{}`)
			var got string
			var ce *mcpclient.CallError
			switch {
			case errors.As(err, &ce) && ce.Kind == mcpclient.KindRPC:
				got = fmt.Sprintf("rpc %d %s", ce.Code, ce.Message)
			case errors.As(err, &ce):
				got = string(ce.Kind) + map[bool]string{true: " in doubt: ", false: " answered: "}[ce.InDoubt()] + ce.Message
			default:
				var parts []string
				for _, block := range res.Content {
					parts = append(parts, strings.TrimRight(block.Type+" "+block.Text+block.Data+" "+block.MIMEType, " ")+map[bool]string{true: " "}[block.Text == "" && block.Data == ""])
				}
				if got = strings.Join(parts, "; "); res.StructuredContent != nil {
					got += string(res.StructuredContent)
				}
				if res.IsError {
					got = "failed: " + got
				}
			}
			if got != c.want && (ce == nil || !strings.Contains(got, c.want)) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if strings.Contains(got, "json:") || strings.Contains(got, "Go ") {
				t.Errorf("it is told in the words of a library: %s", got)
			}
		})
	}
}

// TestLooseHandshakes: a server is used whatever types the members of its handshake have.
func TestLooseHandshakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ result, protocol string }{
		"2024-10-07":             {`{"protocolVersion":"2024-10-07","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`, "2024-10-07"},
		"2024-11-05":             {`{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`, "2024-11-05"},
		"lists for objects":      {`{"protocolVersion":"2025-03-26","capabilities":{"tools":[],"prompts":[],"logging":[],"experimental":[]},"serverInfo":[]}`, "2025-03-26"},
		"booleans for objects":   {`{"protocolVersion":"2025-03-26","capabilities":{"tools":true,"resources":false,"prompts":"no"},"serverInfo":"s"}`, "2025-03-26"},
		"texts for booleans":     {`{"protocolVersion":"2025-03-26","capabilities":{"tools":{"listChanged":"true"},"resources":{"subscribe":0}},"serverInfo":{"name":"s"}}`, "2025-03-26"},
		"null for what it lacks": {`{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":null,"resources":null},"serverInfo":null,"instructions":null}`, "2025-06-18"},
		"a number as version":    {`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":1.5},"instructions":["a"]}`, "2025-06-18"},
		"no capabilities":        {`{"protocolVersion":"2025-06-18","serverInfo":{"name":"s","version":"1"}}`, "2025-06-18"},
		"capabilities as a list": {`{"protocolVersion":"2025-06-18","capabilities":[],"serverInfo":{"name":"s","version":"1"}}`, "2025-06-18"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := setup(t, mcpclient.Options{}, serve(t, &script{answers: map[string]string{
				"initialize": `{"jsonrpc":"2.0","id":"ID","result":` + c.result + `}`,
			}}))
			s := m.Start(ctxFor(t))[0]
			if s.State != mcpclient.StateReady || len(s.Tools) != 1 || s.Protocol != c.protocol {
				t.Errorf("%+v with %d tools", s.Status, len(s.Tools))
			}
		})
	}
}

// TestListsThatRepeat: a listing that never ends is stopped where it repeats, and its items up to there are kept.
func TestListsThatRepeat(t *testing.T) {
	t.Parallel()
	tools := func(next string, names ...string) string {
		var all []string
		for _, name := range names {
			all = append(all, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
		}
		return `{"jsonrpc":"2.0","id":ID,"result":{"tools":[` + strings.Join(all, ",") + `]` + next + `}}`
	}
	for name, c := range map[string]struct {
		answers map[string]string
		want    string // names of the listed tools
		cursors string // cursors of the requests
	}{
		"one page again and again": {map[string]string{"tools/list": tools(`,"nextCursor":"2"`, "a", "b")}, "a b", `none "2"`},
		"a circle": {map[string]string{
			"tools/list": tools(`,"nextCursor":"x"`, "a"), `tools/list "x"`: tools(`,"nextCursor":"y"`, "b"), `tools/list "y"`: tools(`,"nextCursor":"x"`, "c"),
		}, "a b c", `none "x" "y"`},
		"other cursors, the same tools": {map[string]string{
			"tools/list": tools(`,"nextCursor":"1"`, "a"), `tools/list "1"`: tools(`,"nextCursor":"2"`, "a"), `tools/list "2"`: tools(`,"nextCursor":"3"`, "z"),
		}, "a", `none "1"`},
		"an empty page between": {map[string]string{
			"tools/list": tools(`,"nextCursor":"1"`, "a"), `tools/list "1"`: tools(`,"nextCursor":"2"`), `tools/list "2"`: tools(``, "b"),
		}, "a b", `none "1" "2"`},
		"an empty cursor ends an old list": {map[string]string{"tools/list": tools(`,"nextCursor":""`, "a")}, "a", `none`},
		"a null cursor":                    {map[string]string{"tools/list": tools(`,"nextCursor":null`, "a")}, "a", `none`},
		"a number as cursor": {map[string]string{
			"tools/list": tools(`,"nextCursor":7`, "a"), `tools/list "7"`: tools(``, "b"),
		}, "a b", `none "7"`},
		"an empty cursor goes on in 2026": {map[string]string{
			"server/discover": `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`,
			"tools/list":      tools(`,"resultType":"complete","nextCursor":""`, "a"), `tools/list ""`: tools(`,"resultType":"complete","nextCursor":""`, "b"),
		}, "a b", `none ""`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &script{answers: c.answers}
			m := setup(t, mcpclient.Options{}, serve(t, server))
			s := m.Start(ctxFor(t))[0]
			var names []string
			for _, tool := range s.Tools {
				names = append(names, tool.Name)
			}
			server.mu.Lock()
			defer server.mu.Unlock()
			got := [2]string{strings.Join(names, " "), strings.Join(server.cursors, " ")}
			if diff := cmp.Diff([2]string{c.want, c.cursors}, got); diff != "" {
				t.Errorf("%s\n%+v", diff, s.Status)
			}
		})
	}
}

// TestUnannouncedLists: lists that a server does not announce are requested too. A server without such lists works as usual.
func TestUnannouncedLists(t *testing.T) {
	t.Parallel()
	const bare = `{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`
	server := &script{answers: map[string]string{
		"initialize":               bare,
		"resources/list":           `{"jsonrpc":"2.0","id":ID,"result":{"resources":[{"uri":"a:1","name":3},{"uri":"a:1"}],"nextCursor":"1"}}`,
		"resources/templates/list": `{"jsonrpc":"2.0","id":ID,"result":{"resourceTemplates":{"uriTemplate":"a:{x}","description":null}}}`,
		"prompts/list":             `{"jsonrpc":"2.0","id":ID,"result":{"prompts":[{"name":"p","arguments":[{"name":"x","required":"true"}]}]}}`,
	}}
	none := serve(t, &script{answers: map[string]string{"initialize": bare, "tools/list": `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no"}}`}})
	none.Name = "none"
	m := setup(t, mcpclient.Options{}, serve(t, server), none)
	for i, s := range m.Start(ctxFor(t)) {
		if s.State != mcpclient.StateReady || len(s.Tools) != 1-i {
			t.Errorf("%s: %s with %d tools", s.Name, s.State, len(s.Tools))
		}
		resources, err := m.Resources(ctxFor(t), "", s.Name)
		templates, errT := m.ResourceTemplates(ctxFor(t), "", s.Name)
		prompts, errP := m.Prompts(ctxFor(t), "", s.Name)
		if err != nil || errT != nil || errP != nil || len(resources) != 1-i || len(templates) != 1-i || len(prompts) != 1-i {
			t.Errorf("%s: %v %v %v %+v %+v %+v", s.Name, err, errT, errP, resources, templates, prompts)
		}
		if i == 0 && (resources[0].Name != "3" || !prompts[0].Arguments[0].Required) {
			t.Errorf("%+v %+v", resources, prompts)
		}
	}
}

// TestEventStreams: events are read as the standard defines them, with any line ending, and with comments and other fields in between.
func TestEventStreams(t *testing.T) {
	t.Parallel()
	const answer = `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"hi"}]}}`
	split := strings.Replace(answer, `,"result"`, ",\ndata: \"result\"", 1)
	for name, stream := range map[string]string{
		"usual":              "event: message\ndata: " + answer + "\n\n",
		"CRLF":               "event: message\r\ndata: " + answer + "\r\n\r\n",
		"CR":                 "event: message\rdata: " + answer + "\r\r",
		"mixed":              ": hello\r\nid: 1\rdata: " + answer + "\n\r\n",
		"byte order mark":    "\ufeffdata: " + answer + "\n\n",
		"no space":           "data:" + answer + "\n\n",
		"several lines":      "data: " + split + "\n\n",
		"several lines, CR":  strings.ReplaceAll("data: "+split+"\n\n", "\n", "\r"),
		"comments":           ": ping\n\n:\n\ndata: " + answer + "\n: more\n\n",
		"other events":       "event: heartbeat\ndata: x\n\nretry: 100\n\nid: 7\n\nevent: message\nid: 8\nretry: 2000\ndata: " + answer + "\n\n",
		"no empty line":      "data: " + answer + "\n",
		"no end of line":     "data: " + answer,
		"in a batch":         "data: [" + answer + "]\n\n",
		"an id as text":      "data: " + strings.Replace(answer, "ID", `"ID"`, 1) + "\n\n",
		"unknown fields":     "data: " + answer + "\nfoo: bar\nbar\n\n",
		"a comment of bytes": ":" + strings.Repeat("x", 100_000) + "\ndata: " + answer + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := setup(t, mcpclient.Options{}, serve(t, &script{
				answers: map[string]string{"tools/call": stream},
				write: func(w http.ResponseWriter, _ *http.Request, method, answer string) {
					w.Header().Set("Content-Type", map[bool]string{true: "Text/Event-Stream;charset", false: "application/json"}[method == "tools/call"])
					for len(answer) > 0 { // sends the answer in pieces that end at arbitrary bytes
						n := min(len(answer), 7)
						_, _ = io.WriteString(w, answer[:n])
						w.(http.Flusher).Flush()
						answer = answer[n:]
						if len(answer) > 500 {
							_, _ = io.WriteString(w, answer)
							return
						}
					}
				},
			}))
			if res := mustCall(t, m, "echo", `{}`); len(res.Content) != 1 || res.Content[0].Text != "hi" {
				t.Errorf("%s", res.Raw)
			}
		})
	}
}

// TestSSEPreambles: the endpoint event of the old transport is found after any other events.
func TestSSEPreambles(t *testing.T) {
	t.Parallel()
	for name, preamble := range map[string]string{
		"usual":         "event: endpoint\ndata: /post\n\n",
		"CRLF":          "event: endpoint\r\ndata: /post\r\n\r\n",
		"CR":            ": x\r\revent: endpoint\rdata: /post\r\r",
		"mark":          "\ufeffevent: endpoint\ndata: /post\n\n",
		"comment":       ": connected\n\nevent: endpoint\ndata: /post\n\n",
		"retry":         "retry: 3000\n\nevent: endpoint\ndata: /post\n\n",
		"id":            "id: 1\nretry: 5\nevent: endpoint\ndata: /post\n\n",
		"another event": "event: open\ndata: {}\n\ndata: hello\n\nevent: endpoint\ndata: /post\n\n",
		"an address":    "event: endpoint\ndata: BASE/post?session=1\n\n",
		"relative":      "event: endpoint\ndata:   post?session=1 \n\n",
		"order":         "data: /post\nevent: endpoint\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := make(chan string, 10)
			server := &script{write: func(w http.ResponseWriter, _ *http.Request, _, answer string) {
				answers <- answer
				w.WriteHeader(http.StatusAccepted)
			}, answers: map[string]string{"tools/call": `{"jsonrpc":"2.0","id":"ID","result":{"content":"hi"}}`}}
			mux := http.NewServeMux()
			mux.Handle("POST /post", server)
			mux.HandleFunc("GET /mcp", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, strings.Replace(preamble, "BASE", "http://"+r.Host, 1))
				for {
					w.(http.Flusher).Flush()
					select {
					case answer := <-answers:
						_, _ = io.WriteString(w, "event: message\r\ndata: "+answer+"\r\n\r\n")
					case <-r.Context().Done():
						return
					}
				}
			})
			cfg := serve(t, mux)
			cfg.Transport = "sse"
			m := setup(t, mcpclient.Options{}, cfg)
			if res := mustCall(t, m, "echo", `{}`); len(res.Content) != 1 || res.Content[0].Text != "hi" {
				t.Errorf("%s", res.Raw)
			}
		})
	}
}

// TestRefusalsSayWhy: the caller gets the body, status and headers of a refusal over HTTP, without the secrets of the request.
func TestRefusalsSayWhy(t *testing.T) {
	t.Parallel()
	const secret = "sk-very-secret-key"
	for name, c := range map[string]struct {
		status             int
		kind, retry, body  string
		wantText, wantData string
	}{
		"text":      {429, "text/plain", "120", "slow down", "it answered HTTP 429 Too Many Requests; retry after 120 seconds: slow down", `{"body":"slow down","headers":{"retry-after":"120"},"status":429}`},
		"date":      {503, "text/plain", "Wed, 21 Oct 2026 07:28:00 GMT", "", "it answered HTTP 503 Service Unavailable; retry after Wed, 21 Oct 2026 07:28:00 GMT", `{"body":"","headers":{"retry-after":"Wed, 21 Oct 2026 07:28:00 GMT"},"status":503}`},
		"JSON":      {400, "application/json", "", `{"error":{"b":1,"a":12345678901234567890}}`, `it answered HTTP 400 Bad Request: {"error":{"b":1,"a":12345678901234567890}}`, `{"body":{"error":{"b":1,"a":12345678901234567890}},"headers":{},"status":400}`},
		"problem":   {403, "application/problem+json", "", `{"title":"No","detail":"not yours"}`, `"detail":"not yours"`, `{"body":{"title":"No","detail":"not yours"},"headers":{},"status":403}`},
		"page":      {502, "text/html", "", "<html><head><title>502 Bad</title><style>p{}</style></head><body><script>x()</script><p>upstream &amp; down</p></body></html>", "it answered HTTP 502 Bad Gateway: 502 Bad upstream & down", ""},
		"no type":   {410, "", "", "moved away", "it answered HTTP 410 Gone: moved away", `{"body":"moved away","headers":{},"status":410}`},
		"empty":     {500, "", "", "", "it answered HTTP 500 Internal Server Error", `{"body":"","headers":{},"status":500}`},
		"binary":    {500, "image/png", "", "\x89PNG\x00", "it answered HTTP 500 Internal Server Error", `{"body":"","headers":{},"status":500}`},
		"long":      {413, "text/plain", "", strings.Repeat("word ", 50_000), "it answered HTTP 413 Request Entity Too Large: word word", ""},
		"a secret":  {401, "text/plain", "", "bad key " + secret + " given", "it answered HTTP 401 Unauthorized: bad key [credential] given", `{"body":"bad key [credential] given","headers":{},"status":401}`},
		"encodings": {401, "text/plain", secret, "bad key sk\\u002dvery-secret-key", "retry after [credential]: bad key [credential]", `{"body":"bad key [credential]","headers":{"retry-after":"[credential]"},"status":401}`},
	} {
		for _, at := range []string{"tools/call", "tools/list", "initialize", "notifications/initialized"} {
			t.Run(name+" "+at, func(t *testing.T) {
				t.Parallel()
				server := &script{write: func(w http.ResponseWriter, _ *http.Request, method, answer string) {
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, answer)
				}, answers: map[string]string{"tools/call": `{"jsonrpc":"2.0","id":ID,"result":{}}`}}
				cfg := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					if !strings.Contains(string(body), `"`+at+`"`) {
						r.Body = io.NopCloser(strings.NewReader(string(body)))
						server.ServeHTTP(w, r)
						return
					}
					w.Header()["Content-Type"] = nil
					if c.kind != "" {
						w.Header().Set("Content-Type", c.kind)
					}
					if c.retry != "" {
						w.Header().Set("Retry-After", c.retry)
					}
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.body)
				}))
				cfg.Transport, cfg.Headers = "http", map[string]string{"X-Api-Key": secret}
				m := setup(t, mcpclient.Options{}, cfg)
				_, err := call(t, m, "echo", `{}`)
				ce, ok := errors.AsType[*mcpclient.CallError](err)
				if !ok || ce.Refusal == nil {
					t.Fatalf("%+v", err)
				}
				wantIn(t, "error", ce.Error(), c.wantText)
				if len(ce.Error()) > 4000 || strings.Contains(ce.Error()+string(ce.Refusal.Data()), secret) {
					t.Errorf("%s", ce)
				}
				if c.wantData != "" && string(ce.Refusal.Data()) != c.wantData {
					t.Errorf("data %s, want %s", ce.Refusal.Data(), c.wantData)
				}
				if wantDoubt := at == "tools/call" && c.status >= 500; ce.InDoubt() != wantDoubt {
					t.Errorf("in doubt: %t", ce.InDoubt())
				}
			})
		}
	}
}

// TestRefusalThatHangs: a refusal is reported in time although its body never ends.
func TestRefusalThatHangs(t *testing.T) {
	t.Parallel()
	_, cfg := intercept(t, map[string]func(http.ResponseWriter, wireCall){"echo": func(w http.ResponseWriter, c wireCall) {
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, "slow down")
		w.(http.Flusher).Flush()
		<-c.ctx.Done()
	}})
	m := setup(t, mcpclient.Options{}, cfg)
	_, err := m.Call(ctxFor(t), "bad", "echo", nil, mcpclient.CallOptions{Timeout: time.Minute})
	wantIn(t, "error", callError(t, err, mcpclient.KindHTTP, false).Error(), "HTTP 429", "slow down")
}
