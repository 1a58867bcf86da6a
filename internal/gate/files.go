package gate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
)

// file prepares a file call. The run lets those that change files go on one at a time, in call order.
func (r *Run) file(c *journal.Call, intent *journal.Intent) run.Pending {
	if !files.Mutates(c.Name) {
		return answer(func(ctx context.Context) (json.RawMessage, *frame.Error) {
			if part, ok := r.filePart(c); ok {
				return r.readPart(ctx, c, part)
			}
			value, failed := r.scope.Files.Call(ctx, c.Name, c.Args)
			if failed != nil {
				return nil, failed
			}
			value, err := r.scope.Privacy.HideFile(context.WithoutCancel(ctx), pii.FromFile, value)
			if err != nil {
				return nil, runtimeError("Error", "fs.%s: the answer cannot be shown: %v", c.Name, err)
			}
			return value, nil
		})
	}
	return func(ctx context.Context, intend run.Intend) (json.RawMessage, *frame.Error) {
		return r.change(ctx, c, intent, intend)
	}
}

// partMargin is how many bytes before and after a part of a file are searched too, so that no part of a value is shown because the
// rest of it is outside.
const partMargin = 4 << 10

// filePart is the call that reads a part of a file.
type filePart struct {
	Path     string `json:"path"`
	Encoding string `json:"encoding"`
	Offset   int64  `json:"offset"`
	Length   *int64 `json:"length"`
}

func (r *Run) filePart(c *journal.Call) (*filePart, bool) {
	p := &filePart{}
	ok := c.Name == "readFile" && r.scope.Privacy.On() && frame.DecodeArgs(c.Args, p) == nil && (p.Offset > 0 || p.Length != nil && *p.Length >= 0)
	return p, ok
}

// readPart answers with the part of a text that begins in the range, without personal data: of a value that begins in it, the token. What is
// no text is read as it is.
func (r *Run) readPart(ctx context.Context, c *journal.Call, p *filePart) (json.RawMessage, *frame.Error) {
	value, failed := r.scope.Files.Call(ctx, c.Name, c.Args)
	if failed != nil {
		return nil, failed
	}
	done := context.WithoutCancel(ctx)
	around := filePart{Path: p.Path, Encoding: "base64", Offset: max(0, p.Offset-partMargin)}
	before := int(p.Offset - around.Offset)
	if p.Length != nil {
		length := min(before+int(min(*p.Length, files.MaxRead))+partMargin, files.MaxRead)
		around.Length = new(int64(length))
	}
	args, err := json.Marshal(around)
	if err != nil {
		return nil, runtimeError("Error", "%v", err)
	}
	all, failed := r.scope.Files.Call(ctx, c.Name, args)
	if failed != nil {
		return nil, failed
	}
	var in, out struct{ Text, Base64 *string }
	if json.Unmarshal(value, &in) != nil || json.Unmarshal(all, &out) != nil || out.Base64 == nil {
		return nil, runtimeError("Error", "the answer of fs.readFile cannot be read")
	}
	data, err := base64.StdEncoding.DecodeString(*out.Base64)
	if err != nil {
		return nil, runtimeError("Error", "%v", err)
	}
	size := len(data) - before
	if p.Length != nil {
		size = min(size, int(min(*p.Length, files.MaxRead)))
	}
	text, start := wholeCharacters(data, before)
	end := min(len(text), start+max(0, size))
	if in.Base64 == nil { // characters that begin in the range
		start, end = nextCharacter(text, start), nextCharacter(text, end)
	}
	if !utf8.ValidString(text) {
		hidden, err := r.scope.Privacy.HideFile(done, pii.FromFile, value)
		if err != nil {
			return nil, runtimeError("Error", "fs.readFile: the answer cannot be shown: %v", err)
		}
		return hidden, nil
	}
	hidden, err := r.scope.Privacy.HidePart(done, pii.FromFile, text, start, end)
	if err != nil {
		return nil, runtimeError("Error", "fs.readFile: the answer cannot be shown: %v", err)
	}
	if in.Base64 != nil {
		return encode(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(hidden))})
	}
	return encode(map[string]string{"text": hidden})
}

// wholeCharacters leaves out the characters that are cut at the start and the end of data, and moves at, an offset, with it.
func wholeCharacters(data []byte, at int) (string, int) {
	for i := 0; i < utf8.UTFMax-1 && i < at && len(data) > 0 && !utf8.RuneStart(data[0]); i++ {
		data = data[1:]
		at--
	}
	for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
		if last := data[len(data)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				data = data[:len(data)-i]
			}
			break
		}
	}
	return string(data), min(max(0, at), len(data))
}

// nextCharacter is the first border of a character from i on.
func nextCharacter(text string, i int) int {
	for i < len(text) && !utf8.RuneStart(text[i]) {
		i++
	}
	return i
}

// Serial implements run.Gate: calls that change files wait for each other, and synchronous ones for the changes before them.
func (r *Run) Serial(c *journal.Call) bool {
	return c.Kind == string(frame.FS) && (c.Sync || files.Mutates(c.Name))
}

// change is the pending call. One that a dead process had begun is repeated: most give the same result twice, and
// append and rename are guarded by what was true before.
func (r *Run) change(ctx context.Context, c *journal.Call, intent *journal.Intent, intend run.Intend) (json.RawMessage, *frame.Error) {
	space := r.scope.Files
	if intent != nil {
		done, err := space.AlreadyDone(c.Name, c.Args, intent.Before)
		if err != nil {
			return nil, inDoubt("fs."+c.Name, err.Error())
		}
		if done {
			return json.RawMessage("true"), nil
		}
		return space.Call(ctx, c.Name, c.Args)
	}
	before, err := space.Precondition(c.Name, c.Args)
	if err != nil {
		return nil, runtimeError("Error", "%v", err)
	}
	err = intend(ctx, journal.Intent{N: c.N, Key: r.key(c), Retry: true, Time: r.gate.opt.Now().UnixMicro(), Before: before})
	if err != nil {
		return nil, runtimeError("Error", "fs.%s was not done: write the journal: %v", c.Name, err)
	}
	return space.Call(ctx, c.Name, c.Args)
}
