package model

import (
	"encoding/json"
	"strings"
)

// fenceReader reads a model's text line by line, and takes the first block that calls a tool out of it. Deltas of the text
// become deltas of text and call.
type fenceReader struct {
	hasCode bool // blocks of code are calls
	id      string
	onDelta func(Delta)

	line    string // begun, not ended
	ticks   string // of the block that is open; empty outside
	lang    string // of the block that is open and calls a tool
	block   strings.Builder
	prose   strings.Builder
	call    *ToolCall
	ignored bool // there was text after the call
}

func newFenceReader(hasCode bool, id string, onDelta func(Delta)) *fenceReader {
	if onDelta == nil {
		onDelta = func(Delta) {}
	}
	return &fenceReader{hasCode: hasCode, id: id, onDelta: onDelta}
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

// end reads what is left. A block that is still open is a call if whole is true; otherwise it was cut, and is no call.
func (r *fenceReader) end(whole bool) {
	if r.line != "" {
		r.take(r.line)
		r.line = ""
	}
	if r.lang == "" || r.call != nil {
		return
	}
	if whole {
		r.finish()
		return
	}
	r.prose.WriteString(r.ticks + r.lang + "\n" + r.block.String())
}

func (r *fenceReader) take(line string) {
	if r.call != nil {
		r.ignored = r.ignored || !blank(line)
		return
	}
	ticks, info := fenceOf(line)
	switch {
	case r.ticks == "" && ticks != "":
		r.ticks = ticks
		if r.lang = r.calling(info); r.lang != "" {
			if r.lang != "tool" {
				r.onDelta(Delta{Call: codeTool, CallID: r.id, Input: `{"code":"`})
			}
			return
		}
		r.text(line)
	case r.ticks != "" && len(ticks) >= len(r.ticks) && info == "":
		called := r.lang != ""
		if called {
			r.finish()
		} else {
			r.text(line)
		}
		r.ticks = ""
	case r.lang != "":
		r.block.WriteString(line)
		if r.lang != "tool" {
			r.onDelta(Delta{Call: codeTool, CallID: r.id, Input: quoted(line)})
		}
	default:
		r.text(line)
	}
}

func (r *fenceReader) text(line string) {
	r.prose.WriteString(line)
	r.onDelta(Delta{Text: line})
}

// calling is the language of a block that calls a tool, by the word after its ticks; empty if it does not.
func (r *fenceReader) calling(info string) string {
	word, _, _ := strings.Cut(strings.ToLower(info), " ")
	switch word {
	case "js", "javascript", "mjs", "ts", "typescript":
		if r.hasCode {
			return word
		}
	case "tool":
		return word
	}
	return ""
}

// finish makes the call of the block.
func (r *fenceReader) finish() {
	text := strings.TrimSuffix(r.block.String(), "\n")
	call := ToolCall{ID: r.id, Name: codeTool, Input: json.RawMessage(`{}`)}
	if r.lang == "tool" {
		var asked struct {
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		}
		if json.Unmarshal([]byte(text), &asked) == nil && asked.Name != "" {
			call = newCall(r.id, asked.Name, string(asked.Input))
		} else {
			call.Name, call.Malformed = "tool", text
		}
		r.onDelta(Delta{Call: call.Name, CallID: r.id, Input: string(call.Input)})
	} else {
		if input, err := encode(map[string]string{"code": text}); err == nil {
			call.Input = input
		}
		r.onDelta(Delta{Call: codeTool, CallID: r.id, Input: `"}`})
	}
	r.call = &call
}

// fenceOf is the ticks that begin a line, if they are three or more, and what follows them.
func fenceOf(line string) (ticks, info string) {
	line = strings.TrimSpace(line)
	n := len(line) - len(strings.TrimLeft(line, "`"))
	if n < 3 || strings.Contains(line[n:], "`") {
		return "", ""
	}
	return line[:n], strings.TrimSpace(line[n:])
}

// quoted is a text as it stands within a JSON string.
func quoted(text string) string {
	raw, err := encode(text)
	if err != nil || len(raw) < 2 {
		return ""
	}
	return string(raw[1 : len(raw)-1])
}
