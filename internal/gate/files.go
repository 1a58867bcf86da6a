package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"
	"sync"
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
		return func(ctx context.Context, call run.InFlight) (json.RawMessage, *frame.Error) {
			if c.Name != "readFile" {
				return r.reads(ctx, c)
			}
			var at filePart
			_ = frame.DecodeArgs(c.Args, &at) // the call itself says what is wrong with them
			by := r.scope.Files.Hand(at.Path)
			value, failed := r.reads(ctx, c)
			if failed != nil {
				return nil, failed
			}
			r.readByUser(ctx, at.Path, by, value)
			if tokens := r.tokens(at.Path, value, ".text"); tokens != nil {
				call.Tell(run.Told{Tokens: tokens})
			}
			return value, nil
		}
	}
	return func(ctx context.Context, call run.InFlight) (json.RawMessage, *frame.Error) {
		return r.change(ctx, c, intent, call)
	}
}

// reads answers a call that changes no file.
func (r *Run) reads(ctx context.Context, c *journal.Call) (json.RawMessage, *frame.Error) {
	if part, ok := r.filePart(c); ok {
		return r.readPart(ctx, c, part)
	}
	return r.readFile(ctx, c)
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

// wholeText is the number of bytes up to which a part of a file is hidden as the whole is. Of a larger file, what lies within partMargin of the part
// is searched, too: the part of it that is searched begins and ends at a multiple of partMargin, so that parts one after another share it.
const (
	wholeText  = 2 << 20
	partMargin = 256 << 10
)

// readContent is what was searched last for a part of a file.
type readContent struct {
	mu      sync.Mutex
	path    string
	stat    string // state of the file
	window  int64  // beginning of the requested part
	offset  int64  // offset of data in the file
	of      sections
	data    string
	content *pii.Content
}

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
	var in struct {
		Text   *string
		Base64 *[]byte
	}
	if json.Unmarshal(value, &in) != nil || in.Text == nil && in.Base64 == nil {
		return nil, runtimeError("Error", "the answer of fs.readFile cannot be read")
	}
	data, content, at, failed := r.contentAround(ctx, p, r.sections(p.Path, by), func(data string, at int) bool {
		if in.Text != nil {
			return strings.HasPrefix(data[nextCharacter(data, at):], *in.Text)
		}
		return strings.HasPrefix(data[at:], string(*in.Base64))
	})
	if failed != nil {
		return nil, failed
	}
	end := len(data)
	if p.Length != nil {
		end = min(end, at+int(min(*p.Length, files.MaxRead)))
	}
	if in.Text != nil { // characters that begin in the range
		return encode(map[string]string{"text": content.Part(nextCharacter(data, at), nextCharacter(data, end))})
	}
	return encode(map[string][]byte{"base64": []byte(content.Part(at, end))})
}

// contentAround searches a file, or of a large one what is around a part, and tells where the part begins in it. What was searched last is taken if
// the file has not changed since then and the bytes of the part are those of the file: same says so.
func (r *Run) contentAround(
	ctx context.Context, p *filePart, of sections, same func(data string, at int) bool,
) (data string, content *pii.Content, at int, failed *frame.Error) {
	stat, window, length := r.partAround(ctx, p)
	r.read.mu.Lock()
	defer r.read.mu.Unlock()
	last := &r.read
	if at = int(p.Offset - last.offset); at >= 0 && last.content != nil && stat != "" && last.path == p.Path && last.stat == stat && last.window == window && last.of == of &&
		at <= len(last.data) && same(last.data, at) && r.scope.Privacy.Current(last.content) {
		return last.data, last.content, at, nil
	}
	bytes, failed := r.readBytes(ctx, p.Path, window, length)
	if failed != nil {
		return "", nil, 0, failed
	}
	data, offset := string(bytes), window
	if window > 0 {
		data = data[nextCharacter(data[:min(len(data), utf8.UTFMax-1)], 0):]
		offset += int64(len(bytes) - len(data))
	}
	if int64(len(bytes)) == length {
		data = wholeCharacters(data)
	}
	if !utf8.ValidString(data) {
		data, offset = string(bytes), window
		if window > 0 { // the byte order mark of UTF-16 says what it is
			mark, failed := r.readBytes(ctx, p.Path, 0, 2)
			if failed != nil {
				return "", nil, 0, failed
			}
			if m := string(mark); m == "\xff\xfe" || m == "\xfe\xff" {
				data, offset = m+data[:len(data)&^1], window-int64(len(m))
			}
		}
	}
	at = min(int(p.Offset-offset), len(data))
	border := nextCharacter(data, int(min(max(0, of.border-offset), int64(len(data)))))
	content, err := r.scope.Privacy.Content(context.WithoutCancel(ctx), data, int64(border), of.first, of.rest)
	if err != nil {
		return "", nil, 0, runtimeError("Error", "fs.readFile: the answer cannot be shown: %v", err)
	}
	last.content = nil
	if len(data) <= wholeText+2*partMargin {
		last.path, last.stat, last.window, last.offset, last.of, last.data, last.content = p.Path, stat, window, offset, of, data, content
	}
	return data, content, at, nil
}

// partAround says what of a file is searched for a part of it, and what tells that the file is as it was; empty if nothing does.
func (r *Run) partAround(ctx context.Context, p *filePart) (stat string, offset, length int64) {
	args, _ := json.Marshal(map[string]string{"path": p.Path}) // strings always encode
	value, failed := r.scope.Files.Call(ctx, "stat", args)
	var file struct {
		Size    int64   `json:"size"`
		MtimeMs float64 `json:"mtimeMs"`
	}
	if failed == nil && json.Unmarshal(value, &file) == nil && file.MtimeMs > 0 {
		stat = string(value)
	}
	if failed == nil && file.Size <= wholeText && p.Offset <= wholeText {
		return stat, 0, files.MaxRead
	}
	offset = max(0, p.Offset/partMargin-1) * partMargin
	end := int64(math.MaxInt64)
	if p.Length != nil {
		end = ((p.Offset+min(*p.Length, files.MaxRead))/partMargin + 2) * partMargin
	}
	return stat, offset, min(end-offset, files.MaxRead)
}

func (r *Run) readBytes(ctx context.Context, p string, offset, length int64) ([]byte, *frame.Error) {
	args, err := json.Marshal(filePart{Path: p, Encoding: "base64", Offset: offset, Length: &length})
	if err != nil {
		return nil, runtimeError("Error", "%v", err)
	}
	value, failed := r.scope.Files.Call(ctx, "readFile", args)
	if failed != nil {
		return nil, failed
	}
	var read struct{ Base64 []byte }
	if err := json.Unmarshal(value, &read); err != nil {
		return nil, runtimeError("Error", "the answer of fs.readFile cannot be read")
	}
	return read.Base64, nil
}

// wholeCharacters leaves out a character that is cut at the end of a text.
func wholeCharacters(text string) string {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if last := text[len(text)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRuneInString(last) {
				return text[:len(text)-i]
			}
			break
		}
	}
	return text
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
func (r *Run) change(ctx context.Context, c *journal.Call, intent *journal.Intent, call run.InFlight) (json.RawMessage, *frame.Error) {
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
	err = call.Intend(ctx, journal.Intent{N: c.N, Key: r.key(c), Retry: true, Time: r.gate.opt.Now().UnixMicro(), Before: before})
	if err != nil {
		return nil, runtimeError("Error", "fs.%s was not done: write the journal: %v", c.Name, err)
	}
	return space.Call(ctx, c.Name, c.Args)
}
