package model

import (
	"encoding/json"
	"strings"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/startup"
)

// fenceReader reads a model's text line by line and extracts the first block that calls a tool. It turns deltas of the
// text into deltas of text and call. These blocks are calls:
//
//	```js, ```ts and similar languages        a program, for execute_code
//	```tool                                   {"name": …, "input": {…}}; a malformed call if it is anything else
//	<tool_call> … </tool_call>                the same; "arguments" is accepted for "input"
//	```json, and blocks without a language    if they contain such an object with the name of a tool, or, without a language, a program
//
// Tildes may replace the backticks.
type fenceReader struct {
	tools   map[string]bool // names of the tools
	id      string
	onDelta func(Delta)

	line    string // the unfinished line
	fence   string // fence that opened the block; "" outside of blocks
	open    string // line of the opening fence
	lang    string // language of the block: that of a program, "tool", "json", "" if the content decides, or "text"
	block   strings.Builder
	prose   strings.Builder
	call    *ToolCall
	ignored bool // reports whether text followed the call
}

const (
	toolCallOpen  = "<tool_call>"
	toolCallClose = "</tool_call>"
)

func newFenceReader(tools []Tool, id string, onDelta func(Delta)) *fenceReader {
	if onDelta == nil {
		onDelta = func(Delta) {}
	}
	names := map[string]bool{}
	for _, t := range tools {
		names[t.Name] = true
	}
	return &fenceReader{tools: names, id: id, onDelta: onDelta}
}

func (r *fenceReader) write(text string) {
	r.line += text
	for {
		line, rest, ok := strings.Cut(r.line, "\n")
		if !ok {
			return
		}
		r.line = rest
		r.take(line + "\n")
	}
}

// end reads the rest. If whole is true, an open block counts as complete; otherwise the text was cut, and the block is not a call.
func (r *fenceReader) end(whole bool) {
	if r.line != "" {
		r.take(r.line)
		r.line = ""
	}
	switch {
	case r.fence == "" || r.lang == "text" || r.call != nil:
	case whole:
		r.finish("")
	case !r.program():
		r.text(r.open + r.block.String())
	default:
		r.prose.WriteString(r.open + r.block.String())
	}
}

func (r *fenceReader) take(line string) {
	if r.call != nil {
		r.ignored = r.ignored || !blank(line)
		return
	}
	if r.fence == "" {
		r.outside(line)
		return
	}
	fence, info := fenceOf(line)
	content, closed := line, fence != "" && fence[0] == r.fence[0] && len(fence) >= len(r.fence) && info == ""
	if r.fence == toolCallOpen {
		content, _, closed = strings.Cut(line, toolCallClose)
	} else if closed {
		content = ""
	}
	if r.lang == "text" {
		r.text(line)
	} else if content != "" {
		r.block.WriteString(content)
		if r.program() {
			r.onDelta(Delta{Call: codeTool, CallID: r.id, Input: quoted(content)})
		}
	}
	if closed {
		if r.lang != "text" {
			r.finish(line)
		}
		r.fence = ""
	}
}

// outside reads a line outside of blocks.
func (r *fenceReader) outside(line string) {
	if before, after, ok := strings.Cut(line, toolCallOpen); ok && blank(before) {
		r.fence, r.open, r.lang = toolCallOpen, toolCallOpen, "tool"
		r.take(after)
		return
	}
	fence, info := fenceOf(line)
	if fence == "" {
		r.text(line)
		return
	}
	r.fence, r.open = fence, line
	r.lang, _, _ = strings.Cut(strings.ToLower(info), " ")
	switch {
	case r.program():
		r.onDelta(Delta{Call: codeTool, CallID: r.id, Input: `{"code":"`})
	case r.lang != "tool" && r.lang != "json" && r.lang != "":
		r.lang = "text"
		r.text(line)
	}
}

func (r *fenceReader) text(line string) {
	r.prose.WriteString(line)
	r.onDelta(Delta{Text: line})
}

// program reports whether the block's language is that of a program.
func (r *fenceReader) program() bool {
	switch r.lang {
	case "js", "javascript", "mjs", "ts", "typescript":
		return r.tools[codeTool]
	}
	return false
}

// likeProgram matches constructs of programs for execute_code that are rare in prose.
var likeProgram = startup.Regexp(`(?m)^\s*(return\b|await\b|const \w|let \w|import .*from|console\.log\()|\bawait \w|\bcallMCPTool\(`)

// finish turns the block into the call, or into text if its content is not a call. line is the line that closed the block.
func (r *fenceReader) finish(line string) {
	block := r.block.String()
	text := strings.TrimSuffix(block, "\n")
	var asked struct {
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
		Arguments json.RawMessage `json:"arguments"`
	}
	isCall := json.Unmarshal([]byte(text), &asked) == nil && asked.Name != "" && (r.lang == "tool" || r.tools[asked.Name])
	switch {
	case r.program():
		r.onDelta(Delta{Call: codeTool, CallID: r.id, Input: `"}`})
		r.call = r.programCall(text)
	case isCall:
		if asked.Input == nil {
			asked.Input = asked.Arguments
		}
		call := newCall(r.id, asked.Name, string(asked.Input))
		r.call = &call
	case r.lang == "tool":
		r.call = &ToolCall{ID: r.id, Name: "tool", Input: json.RawMessage(`{}`), Malformed: text}
	case r.lang == "" && r.tools[codeTool] && likeProgram().MatchString(text):
		r.call = r.programCall(text)
	default:
		r.text(r.open + block + line)
		r.block.Reset()
		return
	}
	if !r.program() {
		r.onDelta(Delta{Call: r.call.Name, CallID: r.id, Input: string(r.call.Input)})
	}
}

func (r *fenceReader) programCall(code string) *ToolCall {
	input, _ := journal.Encode(map[string]string{"code": code}) // strings can always be encoded
	return &ToolCall{ID: r.id, Name: codeTool, Input: input}
}

// fenceOf returns the three or more backticks or tildes that begin a line, and the text after them. Without them it returns "".
func fenceOf(line string) (fence, info string) {
	line = strings.TrimSpace(line)
	for _, mark := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, mark)); n >= 3 && !strings.Contains(line[n:], "`") {
			return line[:n], strings.TrimSpace(line[n:])
		}
	}
	return "", ""
}

// quoted returns a text escaped as in a JSON string, without the quotes.
func quoted(text string) string {
	raw, _ := journal.Encode(text) // a string can always be encoded
	return string(raw[1 : len(raw)-1])
}
