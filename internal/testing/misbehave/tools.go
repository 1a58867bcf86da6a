package misbehave

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// names lists the names of the tools, in the order of tools/list.
var names = []string{
	"echo", "env", "pid", "big", "grow", "exit", "half", "broken", "hang", "progress", "step", "received", "wrong-ids",
	"wrong-shape", "bad-content", "rpc-error", "error", "wrapped", "stderr", "deaf", "pings", "input",
	"asks", "deep", "blocks", "endless", "chatter", "scream", "stderr-flood", "null-id",
}

// definition returns a tool. The keys of its schema are in an order that sorting would destroy.
func definition(name string) string {
	extra := ""
	switch name {
	case "echo":
		extra = `,"title":"Echo","annotations":{"readOnlyHint":true,"idempotentHint":true}`
	case "wrapped":
		extra = `,"outputSchema":{"type":"object","required":["result"],` +
			`"properties":{"result":{"type":"array","items":{"type":"integer"}}},"x-fastmcp-wrap-result":true}`
	}
	return fmt.Sprintf(`{"name":%q,"description":"The tool %s","inputSchema":{"type":"object",`+
		`"properties":{"zeta":{"type":"string"},"alpha":{"type":"integer"},"mid":{"type":"boolean"}}}%s}`, name, name, extra)
}

func (s *server) list(req request) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	_ = json.Unmarshal(req.Params, &p) // the first page needs no parameters
	page, _ := strconv.Atoi(p.Cursor)  // the first page has no cursor
	s.mu.Lock()
	grown := s.grown
	s.mu.Unlock()
	all := make([]string, 0, len(names)+grown)
	for _, name := range names {
		all = append(all, definition(name))
	}
	for i := range grown {
		all = append(all, definition(fmt.Sprintf("extra-%d", i+1)))
	}
	next := ""
	switch s.kind {
	case EndlessPages:
		all = []string{definition(fmt.Sprintf("page-%d", page))}
		next = fmt.Sprintf(`,"nextCursor":"%d"`, page+1)
	case Pages:
		all = []string{definition(fmt.Sprintf("page-%d", page))}
		if page < 2 {
			next = fmt.Sprintf(`,"nextCursor":"%d"`, page+1)
		}
	case SamePage:
		all = []string{definition(fmt.Sprintf("page-%d", page))}
		next = `,"nextCursor":"1"`
	case HugePages:
		all = []string{definition(fmt.Sprintf("page-%d", page))}
		all[0] = strings.Replace(all[0], "The tool", strings.Repeat("word ", 160_000), 1)
		next = fmt.Sprintf(`,"nextCursor":"%d"`, page+1)
	case ManyTools:
		for i := range 100_000 {
			all = append(all, fmt.Sprintf(`{"name":"t%d"}`, i))
		}
	case OddTools:
		all = append(all, definition(strings.Repeat("n", 1000)), definition("echo"),
			strings.Replace(definition("huge"), "The tool", strings.Repeat("word ", 500_000), 1))
	case BadTool:
		all = append(all, `{"name":"bad","description":42,"inputSchema":{"type":"object"}}`, `"not even an object"`)
	}
	s.answer(req.ID, `{"tools":[`+strings.Join(all, ",")+`]`+next+`}`)
}

func text(s string) string {
	quoted, _ := json.Marshal(s) // a string can always be encoded
	return `{"content":[{"type":"text","text":` + string(quoted) + `}]}`
}

// call runs a tool. It returns false if the server has to end.
func (s *server) call(req request) bool {
	var p struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      struct {
			ProgressToken json.RawMessage `json:"progressToken"`
			Key           string          `json:"mcp-code-exec-harness/idempotencyKey"`
		} `json:"_meta"`
	}
	var args struct {
		Name  string `json:"name"`
		Bytes int    `json:"bytes"`
		Steps int    `json:"steps"`
		Count int    `json:"count"`
	}
	if err := json.Unmarshal(req.Params, &p); err != nil {
		s.refuse(req.ID, -32602, err.Error())
		return true
	}
	_ = json.Unmarshal(p.Arguments, &args) // echo takes any arguments
	s.note(p.Name, string(req.ID))
	if p.Meta.Key != "" {
		s.note("key", p.Meta.Key)
	}
	switch p.Name {
	case "echo":
		s.answer(req.ID, `{"content":[],"structuredContent":`+
			string(p.Arguments)+`}`)
	case "env":
		value, ok := os.LookupEnv(args.Name)
		s.answer(req.ID, text(fmt.Sprintf("%t %s", ok, value)))
	case "pid":
		s.answer(req.ID, text(strconv.Itoa(os.Getpid())))
	case "big":
		s.answer(req.ID, text(strings.Repeat("x", args.Bytes)))
	case "grow":
		s.mu.Lock()
		s.grown++
		s.mu.Unlock()
		s.answer(req.ID, text("grown"))
		s.write(toolsChanged)
	case "exit":
		fmt.Fprintln(os.Stderr, "fatal: asked to exit")
		return false
	case "half":
		whole := `{"jsonrpc":"2.0","id":` + string(req.ID) + `,"result":` + text("half an answer")
		_, _ = os.Stdout.WriteString(whole[:len(whole)/2]) // the client may be gone
		return false
	case "broken":
		s.write(`{"jsonrpc":"2.0","id":` + string(req.ID) + `,"result":{"content":[}}`)
	case "hang":
	case "progress":
		go func() {
			for i := range args.Steps {
				<-s.steps
				s.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,`+
					`"progress":%d,"total":%d,"message":"step %d"}}`, p.Meta.ProgressToken, i+1, args.Steps, i+1))
			}
			s.answer(req.ID, text("done"))
		}()
	case "step":
		go func() {
			s.steps <- struct{}{}
			s.answer(req.ID, text("stepped"))
		}()
	case "received":
		s.mu.Lock()
		list, _ := json.Marshal(s.received) // strings can always be encoded
		s.mu.Unlock()
		s.answer(req.ID, `{"content":[],"structuredContent":`+string(list)+`}`)
	case "wrong-ids":
		for _, id := range []string{`999999`, `"x"`, `-1`} {
			s.answer(json.RawMessage(id), text("for nobody"))
		}
		s.answer(req.ID, text("for you"))
	case "wrong-shape":
		s.answer(req.ID, `"a string"`)
	case "bad-content":
		s.answer(req.ID, `{"content":"no array"}`)
	case "rpc-error":
		s.refuse(req.ID, -32602, "zeta is required")
	case "error":
		s.answer(req.ID, `{"content":[{"type":"text","text":"no such customer: 42"}],"isError":true}`)
	case "wrapped":
		s.answer(req.ID, `{"content":[{"type":"text","text":"1"},{"type":"text","text":"2"},{"type":"text","text":"3"}],`+
			`"structuredContent":{"result":[1,2,3]}}`)
	case "stderr":
		for i := range 100 {
			fmt.Fprintf(os.Stderr, "stderr line %d\n", i+1)
		}
		s.answer(req.ID, text("written"))
	case "deaf":
		s.answer(req.ID, text("listening no more"))
		forever()
	case "pings":
		for i := range 20_000 {
			s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":"ping-%d","method":"ping"}`, i))
		}
		forever()
	case "input":
		s.answer(req.ID, `{"resultType":"input_required","inputRequests":{},"requestState":"x"}`)
	case "asks":
		s.write(`{"jsonrpc":"2.0","id":"sample","method":"sampling/createMessage","params":{"messages":[],"maxTokens":9}}`)
		s.write(`{"jsonrpc":"2.0","id":"elicit","method":"elicitation/create","params":{"message":"Your password?",` +
			`"requestedSchema":{"type":"object","properties":{"p":{"type":"string"}}}}}`)
		s.write(`{"jsonrpc":"2.0","id":"roots","method":"roots/list"}`)
		s.answer(req.ID, text("asked"))
	case "stderr-flood":
		for line := []byte(strings.Repeat("x", 1<<16-1) + "\n"); ; {
			if _, err := os.Stderr.Write(line); err != nil {
				return false
			}
		}
	case "null-id":
		s.write(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"cannot read it"}}`)
	case "deep":
		s.answer(req.ID, `{"structuredContent":`+strings.Repeat(`{"a":`, 100_000)+`1`+strings.Repeat(`}`, 100_000)+`}`)
	case "blocks":
		s.answer(req.ID, `{"content":[`+strings.Repeat(`{"type":"x"},`, args.Count-1)+`{"type":"x"}]}`)
	case "endless":
		for line := strings.Repeat("x", 1<<16); ; {
			if _, err := io.WriteString(s.out, line); err != nil {
				return false
			}
		}
	case "chatter":
		message, _ := json.Marshal(strings.Repeat("x", args.Bytes)) // a string can always be encoded
		for i := range args.Count {
			s.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,`+
				`"progress":%d,"message":%s}}`, p.Meta.ProgressToken, i, message))
		}
		s.answer(req.ID, text("done"))
	case "scream":
		s.refuse(req.ID, -32603, strings.Repeat("A", args.Bytes))
	default:
		s.refuse(req.ID, -32602, "unknown tool "+p.Name)
	}
	return true
}
