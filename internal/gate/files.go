package gate

import (
	"bytes"
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
			return r.readFile(ctx, c)
		})
	}
	return func(ctx context.Context, intend run.Intend) (json.RawMessage, *frame.Error) {
		return r.change(ctx, c, intent, intend)
	}
}

// readFile answers a call that changes no file, without personal data.
func (r *Run) readFile(ctx context.Context, c *journal.Call) (json.RawMessage, *frame.Error) {
	var at struct {
		Path string `json:"path"`
	}
	_ = frame.DecodeArgs(c.Args, &at) // the call itself says what is wrong with them
	reads := c.Name == "readFile" && r.scope.Privacy.On()
	var by files.Hand
	if reads {
		by = r.scope.Files.Hand(at.Path)
	}
	value, failed := r.scope.Files.Call(ctx, c.Name, c.Args)
	if failed != nil {
		return nil, failed
	}
	done := context.WithoutCancel(ctx)
	var err error
	switch {
	case reads:
		value, err = r.hideRead(done, r.sections(at.Path, by), value)
	case c.Name == "readdir" && r.scope.Privacy.On():
		value, err = r.hideNames(done, at.Path, value)
	default:
		value, err = r.scope.Privacy.HideJSON(done, pii.FromProgram, value)
	}
	if err != nil {
		return nil, runtimeError("Error", "fs.%s: the answer cannot be shown: %v", c.Name, err)
	}
	return value, nil
}

// sections are the origins of what stands in a file: of its first bytes, up to border, and of the rest.
type sections struct {
	border, size int64 // size is that of the file, if border is not 0
	first, rest  pii.Origin
}

// sections says where the bytes of a file come from, which was asked for its hand before it was read. A file that has changed meanwhile
// counts as a program's.
func (r *Run) sections(p string, by files.Hand) sections {
	if r.scope.Files.Hand(p) != by {
		by = files.Hand{}
	}
	return sections{by.Given, by.Size, pii.FromFile, pii.OfPrograms(r.scope.Files.Tree(p))}
}

// hideRead hides in the answer of a call that reads a whole file.
func (r *Run) hideRead(ctx context.Context, of sections, value json.RawMessage) (json.RawMessage, error) {
	switch {
	case of.border <= 0:
		return r.scope.Privacy.HideFile(ctx, of.rest, value)
	case of.border >= of.size:
		return r.scope.Privacy.HideFile(ctx, of.first, value)
	}
	var read struct {
		Text   *string `json:"text,omitempty"`
		Base64 *[]byte `json:"base64,omitempty"`
	}
	if err := json.Unmarshal(value, &read); err != nil {
		return nil, err
	}
	switch {
	case read.Text != nil:
		hidden, err := r.scope.Privacy.HideSections(ctx, *read.Text, of.border, of.first, of.rest)
		if err != nil || hidden == *read.Text {
			return value, err
		}
		read.Text = &hidden
	case read.Base64 != nil:
		hidden, err := r.scope.Privacy.HideSections(ctx, string(*read.Base64), of.border, of.first, of.rest)
		if err != nil || hidden == string(*read.Base64) {
			return value, err
		}
		read.Base64 = new([]byte(hidden))
	}
	return journal.Encode(read)
}

// hideNames hides in the names of a listing. Those of files that their owner put there are texts from outside.
func (r *Run) hideNames(ctx context.Context, p string, value json.RawMessage) (json.RawMessage, error) {
	if r.scope.Files.Tree(p) == "servers" {
		return r.scope.Privacy.HideJSON(ctx, pii.FromCatalog, value)
	}
	hidden, err := r.scope.Privacy.HideJSON(ctx, pii.FromProgram, value)
	if err != nil || bytes.Equal(hidden, value) && bytes.LastIndexByte(value, '[') <= 0 {
		return hidden, err // no name has a value or looks like a token
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(value, &entries); err != nil {
		return nil, err
	}
	for i, entry := range entries {
		var at struct{ Path string }
		if err := json.Unmarshal(entry, &at); err != nil {
			return nil, err
		}
		from := pii.OfPrograms(r.scope.Files.Tree(at.Path))
		if r.scope.Files.Hand(at.Path).Given > 0 {
			from = pii.FromFile
		}
		if entries[i], err = r.scope.Privacy.HideJSON(ctx, from, entry); err != nil {
			return nil, err
		}
	}
	return journal.Encode(entries)
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
	by := r.scope.Files.Hand(p.Path)
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
	of := r.sections(p.Path, by)
	text, start := wholeCharacters(data, before)
	border := int(min(max(0, of.border-around.Offset-int64(before-start)), int64(len(text))))
	end := min(len(text), start+max(0, size))
	if in.Base64 == nil { // characters that begin in the range
		start, end = nextCharacter(text, start), nextCharacter(text, end)
	}
	if !utf8.ValidString(text) {
		of.border, of.size = of.border-p.Offset, of.size-p.Offset
		hidden, err := r.hideRead(done, of, value)
		if err != nil {
			return nil, runtimeError("Error", "fs.readFile: the answer cannot be shown: %v", err)
		}
		return hidden, nil
	}
	border = nextCharacter(text, border)
	hidden, err := r.scope.Privacy.HidePart(done, of.first, text[:border], min(start, border), min(end, border))
	if err == nil {
		var rest string
		rest, err = r.scope.Privacy.HidePart(done, of.rest, text[border:], max(0, start-border), max(0, end-border))
		hidden += rest
	}
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
