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

// file prepares a file call. The run executes calls that change files one at a time, in call order.
func (r *Run) file(c *journal.Call, intent *journal.Intent) run.Pending {
	if !files.Mutates(c.Name) {
		return func(ctx context.Context, call run.InFlight) (json.RawMessage, *frame.Error) {
			if c.Name != "readFile" {
				return r.reads(ctx, c)
			}
			var at filePart
			_ = frame.DecodeArgs(c.Args, &at) // the call itself reports wrong arguments
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

// reads answers a call that only reads.
func (r *Run) reads(ctx context.Context, c *journal.Call) (json.RawMessage, *frame.Error) {
	if part, ok := r.filePart(c); ok {
		return r.readPart(ctx, c, part)
	}
	return r.readFile(ctx, c)
}

// readFile answers a call that only reads, and hides personal data in the answer.
func (r *Run) readFile(ctx context.Context, c *journal.Call) (json.RawMessage, *frame.Error) {
	var at struct {
		Path string `json:"path"`
	}
	_ = frame.DecodeArgs(c.Args, &at) // the call itself reports wrong arguments
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

// sections are the origins of the contents of a file: of the bytes before border, and of the rest.
type sections struct {
	border, size int64 // size is the size of the file; it is set only if border is not 0
	first, rest  pii.Origin
}

// sections returns the origins of the bytes of a file. by is the file's Hand from before it was read. A file that has changed since then counts
// as written by a program.
func (r *Run) sections(p string, by files.Hand) sections {
	if r.scope.Files.Hand(p) != by {
		by = files.Hand{}
	}
	return sections{by.Given, by.Size, pii.FromFile, pii.OfPrograms(r.scope.Files.Tree(p))}
}

// hideRead hides personal data in the answer of a call that reads a whole file.
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

// hideNames hides personal data in the names of a listing. The names of files that the user stored are texts from outside.
func (r *Run) hideNames(ctx context.Context, p string, value json.RawMessage) (json.RawMessage, error) {
	if r.scope.Files.Tree(p) == "servers" {
		return r.scope.Privacy.HideJSON(ctx, pii.FromCatalog, value)
	}
	hidden, err := r.scope.Privacy.HideJSON(ctx, pii.FromProgram, value)
	if err != nil || bytes.Equal(hidden, value) && bytes.LastIndexByte(value, '[') <= 0 {
		return hidden, err // no name contains personal data or looks like a token
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

// wholeText is the maximum size of a file that is searched as a whole when a part of it is read. Of a larger file, only the part and at least
// partMargin bytes around it are searched. This range begins and ends at multiples of partMargin, so that consecutive parts share it.
const (
	wholeText  = 2 << 20
	partMargin = 256 << 10
)

// readContent is the content that was last searched for a part of a file.
type readContent struct {
	mu      sync.Mutex
	path    string
	stat    string // state of the file
	window  int64  // beginning of the range that was read
	offset  int64  // offset of data in the file
	of      sections
	data    string
	content *pii.Content
}

// filePart has the arguments of a call that reads a part of a file.
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

// readPart answers with a range of a text, in which tokens replace personal data. The token of a value belongs to the range in which the value
// begins. Data that is not text is returned unchanged.
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
	if in.Text != nil { // a text answer has the characters that begin in the range
		return encode(map[string]string{"text": content.Part(nextCharacter(data, at), nextCharacter(data, end))})
	}
	return encode(map[string][]byte{"base64": []byte(content.Part(at, end))})
}

// contentAround returns data of a file and the personal data found in it: the whole file or, if it is large, the range around the part p. at is the offset in
// data at which the part begins. The result of the last search is reused if the file has not changed since then and the function same confirms that the
// earlier data contain the part's bytes at that offset.
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
		if window > 0 { // UTF-16 is recognized by the byte order mark at the beginning of the file
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

// partAround returns the range of a file that is searched for a part, and a text that changes with the file; the text is "" if changes cannot be
// noticed.
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

// wholeCharacters removes an incomplete character at the end of a text.
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

// nextCharacter returns the first position at or after i at which a character begins, or the length of text.
func nextCharacter(text string, i int) int {
	for i < len(text) && !utf8.RuneStart(text[i]) {
		i++
	}
	return i
}

// Serial implements run.Gate: calls that change files wait for each other, and synchronous calls wait for the changes before them.
func (r *Run) Serial(c *journal.Call) bool {
	return c.Kind == string(frame.FS) && (c.Sync || files.Mutates(c.Name))
}

// change executes a call that changes files. A call that a dead process had begun is repeated unless it took effect. Most calls
// give the same result twice. For the others (append, rename, and some mkdir and rm calls), the intent has the state of the files before the call.
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
