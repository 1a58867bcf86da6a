// Package input reads the input of a run: a file that does not change, in pages of whole rows. The tokens that hide personal data of a page are
// kept separately from the page, so that a journal holds only byte ranges and tokens, and no data.
package input

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/journal"
)

// Format is the text format of an input, such as CSV.
type Format string

// Formats of an input. The program gets an input in JSON or Text as one value, the others as rows.
const (
	JSON   Format = "json"   // the value is the JSON value
	NDJSON Format = "ndjson" // a row is the JSON value of a line; empty lines are skipped
	CSV    Format = "csv"    // a row is an object of strings whose keys are the fields of the first row
	Lines  Format = "lines"  // a row is a line without its line ending
	Text   Format = "text"   // the value is a string
)

// Formats lists all formats.
var Formats = []Format{JSON, NDJSON, CSV, Lines, Text}

func (f Format) rows() bool { return f == NDJSON || f == CSV || f == Lines }

// MaxWhole is the maximum size in bytes of an input in JSON or Text.
const MaxWhole = 8 << 20

const (
	pageBytes = 512 << 10 // bytes of the input after which a page ends with the current row
	maxRow    = 4 << 20   // maximum size of a row in bytes
	maxFields = 4096      // maximum number of fields of a CSV row
	pages     = 4         // maximum number of cached pages
)

// FormatOf determines the format of a file from its name and its beginning.
func FormatOf(name string, beginning []byte) Format {
	switch strings.ToLower(path.Ext(name)) {
	case ".json":
		return JSON
	case ".ndjson", ".jsonl":
		return NDJSON
	case ".csv", ".tsv":
		return CSV
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(beginning, bom), " \t\r\n")
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return Text
	}
	line, rest, more := bytes.Cut(text, []byte("\n"))
	if rest = bytes.TrimSpace(rest); more && len(rest) > 0 && json.Valid(line) && (rest[0] == '{' || rest[0] == '[') {
		return NDJSON
	}
	return JSON
}

var bom = []byte("\xef\xbb\xbf")

// Error describes an error in an input, and its row. It contains no values.
type Error struct {
	Row     int64 // row number from 1; 0 for the whole input
	Message string
}

func (e *Error) Error() string {
	if e.Row == 0 {
		return "the input: " + e.Message
	}
	return fmt.Sprintf("the input, row %d: %s", e.Row, e.Message)
}

// Page is what the journal stores about a page of an input.
type Page struct {
	Offset int64 `json:"offset"`         // offset of the first byte
	Next   int64 `json:"next,omitempty"` // offset of the next page; 0 if there is none
	Rows   int   `json:"rows"`
	// Hidden are the changes that turn the rows of the input into those that the program got.
	Hidden []Change `json:"hidden,omitempty"`
}

// Change replaces the bytes from Start to End of the JSON text of a row by Text.
type Change struct {
	Row   int    `json:"row"` // index of the row in the page
	Start int    `json:"start"`
	End   int    `json:"end"`
	Text  string `json:"text"`
}

// Reader reads an input. It is safe for concurrent use.
type Reader struct {
	r      io.ReaderAt
	start  int64 // offset of the text after a byte order mark
	size   int64
	format Format
	comma  rune
	header [][]byte // keys of a CSV row, each as a JSON string with a colon

	mu   sync.Mutex
	read []read // cached pages, the newest last
}

// read is a page that was read.
type read struct {
	offset int64
	next   int64
	rows   []json.RawMessage
	hidden []json.RawMessage
}

// NewReader returns a Reader of an input in UTF-8. The error is an *Error if the input does not have the format.
func NewReader(r io.ReaderAt, size int64, format Format) (*Reader, error) {
	in := &Reader{r: r, size: size, format: format}
	beginning := make([]byte, len(bom))
	if n, err := r.ReadAt(beginning, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the input: %w", err)
	} else if bytes.Equal(beginning[:n], bom) {
		in.start = int64(n)
	}
	switch {
	case !slices.Contains(Formats, format):
		return nil, &Error{Message: fmt.Sprintf("there is no format %q; there are json, ndjson, csv, lines and text", format)}
	case !format.rows() && size > MaxWhole:
		rows := "lines"
		if format == JSON {
			rows = "ndjson, one value a line"
		}
		return nil, &Error{Message: fmt.Sprintf("%d bytes are too many for the format %s, which a program gets as a whole (at most %d); give it as %s, which it reads row by row",
			size, format, MaxWhole, rows)}
	case format == JSON:
		text, err := in.whole()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := json.Unmarshal(text, &value); err != nil {
			return nil, notJSON(0, text, err)
		}
	case format == CSV:
		return in, in.readHeader()
	}
	return in, nil
}

func notJSON(row int64, text []byte, err error) error {
	at := ""
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && row == 0 {
		before := text[:min(int(max(syntax.Offset-1, 0)), len(text))]
		at = fmt.Sprintf(" at line %d, column %d", bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n'))
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return &Error{row, "it is empty, which is no JSON"}
	}
	return &Error{row, "it is no JSON" + at}
}

// whole reads the whole input without its byte order mark.
func (in *Reader) whole() ([]byte, error) {
	text := make([]byte, in.size-in.start)
	if _, err := io.ReadFull(io.NewSectionReader(in.r, in.start, in.size-in.start), text); err != nil {
		return nil, fmt.Errorf("read the input: %w", err)
	}
	return text, nil
}

// rowLimit is a reader that fails when a row is too long.
type rowLimit struct {
	r    io.Reader
	left int
}

var errRow = fmt.Errorf("it has more than %d bytes", maxRow)

func (l *rowLimit) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errRow
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// from returns a reader that begins at an offset, and its row limit.
func (in *Reader) from(offset int64) (*bufio.Reader, *rowLimit) {
	limit := &rowLimit{io.NewSectionReader(in.r, offset, in.size-offset), maxRow}
	return bufio.NewReaderSize(limit, 64<<10), limit
}

func (in *Reader) csv(offset int64) (*csv.Reader, *rowLimit) {
	text, limit := in.from(offset)
	r := csv.NewReader(text)
	r.Comma, r.FieldsPerRecord, r.ReuseRecord = in.comma, -1, true
	return r, limit
}

// readHeader reads the names of the columns. It derives the separator from the first line.
func (in *Reader) readHeader() error {
	text, _ := in.from(in.start)
	beginning, _ := text.Peek(64 << 10) // less if the input is shorter; any other error occurs again in Read below
	in.comma = separator(beginning)
	r, _ := in.csv(in.start)
	names, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil // the input is empty
	}
	if err != nil {
		return wrongCSV(1, err)
	}
	used := map[string]bool{}
	for i, name := range names {
		name = cmp.Or(strings.TrimSpace(name), fmt.Sprintf("column_%d", i+1))
		for n := 2; used[name]; n++ {
			name = fmt.Sprintf("%s_%d", strings.TrimSpace(names[i]), n)
		}
		used[name] = true
		in.header = append(in.header, append(appendString(nil, name), ':'))
	}
	if len(in.header) > maxFields {
		return &Error{1, fmt.Sprintf("it has more than %d fields", maxFields)}
	}
	return nil
}

func separator(beginning []byte) rune {
	line, _, _ := bytes.Cut(beginning, []byte("\n"))
	best, most := ',', 0
	for _, comma := range ",;\t|" {
		count, quoted := 0, false
		for _, c := range line {
			switch {
			case c == '"':
				quoted = !quoted
			case rune(c) == comma && !quoted:
				count++
			}
		}
		if count > most {
			best, most = comma, count
		}
	}
	return best
}

func wrongCSV(row int64, err error) error {
	wrong, ok := errors.AsType[*csv.ParseError](err)
	switch {
	case errors.Is(err, errRow):
		return &Error{row, errRow.Error() + "; perhaps a quote is not closed"}
	case ok:
		return &Error{row, fmt.Sprintf("it is no CSV: %v (character %d); a quote within a quoted field is written twice", wrong.Err, wrong.Column)}
	}
	return fmt.Errorf("read the input: %w", err)
}

// Prefix returns the beginning of a path that has to be removed before the path is shown to a user. The path leads into the JSON text that Read
// passes to hide, an array of rows. If the input has no rows, this array has one element, the value of the input, and the prefix is its index. If the
// input has rows, the prefix is empty.
func (in *Reader) Prefix() string {
	if in.format.rows() {
		return ""
	}
	return "[0]"
}

// Read reads the page that begins at an offset. hide, which may be nil, replaces personal data in the JSON text of the page, an array of rows.
// row is the number of rows before the page, for errors.
func (in *Reader) Read(offset, row int64, hide func(json.RawMessage) (json.RawMessage, error)) (*Page, error) {
	if offset < 0 || offset > in.size {
		return nil, &Error{Message: fmt.Sprintf("it has %d bytes, and none at %d", in.size, offset)}
	}
	page := read{offset: offset}
	var err error
	if page.rows, page.next, err = in.rowsAt(offset, row); err != nil {
		return nil, err
	}
	page.hidden = page.rows
	out := &Page{Offset: offset, Next: page.next, Rows: len(page.rows)}
	if hide != nil && len(page.rows) > 0 {
		text, err := hide(array(page.rows))
		if err != nil {
			return nil, err
		}
		var hidden []json.RawMessage
		if err := json.Unmarshal(text, &hidden); err != nil || len(hidden) != len(page.rows) {
			return nil, errors.New("hide personal data: the rows of the input are no rows any more")
		}
		page.hidden = hidden
		for i, hidden := range page.hidden {
			if !bytes.Equal(hidden, page.rows[i]) {
				out.Hidden = append(out.Hidden, change(i, page.rows[i], hidden))
			}
		}
	}
	in.keep(page)
	return out, nil
}

// keep caches a page, because Recall will need it soon.
func (in *Reader) keep(page read) {
	in.mu.Lock()
	defer in.mu.Unlock()
	page.rows = nil
	if len(in.read) == pages {
		in.read = in.read[1:]
	}
	in.read = append(in.read, page)
}

// Recall returns what the program gets for a recorded Page: {"rows": [...], "next": N}, or {"value": V} if the input does not have rows. Any
// Reader of the same input may have read the page.
func (in *Reader) Recall(recorded json.RawMessage) (json.RawMessage, error) {
	var page Page
	if err := json.Unmarshal(recorded, &page); err != nil {
		return nil, fmt.Errorf("read the record of a part of the input: %w", err)
	}
	rows, ok := in.forget(page.Offset)
	if !ok {
		var next int64
		var err error
		if rows, next, err = in.rowsAt(page.Offset, 0); err != nil {
			return nil, err
		}
		if len(rows) != page.Rows || next != page.Next {
			return nil, errors.New("read the input: another release of the harness recorded this run")
		}
		for _, c := range page.Hidden {
			if c.Row < 0 || c.Row >= len(rows) || c.Start < 0 || c.Start > c.End || c.End > len(rows[c.Row]) {
				return nil, errors.New("read the input: the record of what is hidden of it is wrong")
			}
			row := rows[c.Row]
			rows[c.Row] = slices.Concat(row[:c.Start], []byte(c.Text), row[c.End:])
		}
	}
	if !in.format.rows() {
		if len(rows) != 1 {
			return nil, errors.New("read the input: it is no value")
		}
		return slices.Concat([]byte(`{"value":`), rows[0], []byte("}")), nil
	}
	text := append([]byte(`{"rows":`), array(rows)...)
	if page.Next > 0 {
		text = fmt.Appendf(text, `,"next":%d`, page.Next)
	}
	return append(text, '}'), nil
}

// forget returns the rows of a cached page and removes the page from the cache.
func (in *Reader) forget(offset int64) ([]json.RawMessage, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i, page := range in.read {
		if page.offset == offset {
			in.read = slices.Delete(in.read, i, i+1)
			return page.hidden, true
		}
	}
	return nil, false
}

// array returns the JSON array of rows.
func array(rows []json.RawMessage) json.RawMessage {
	size := 2
	for _, row := range rows {
		size += len(row) + 1
	}
	text := append(make([]byte, 0, size), '[')
	for i, row := range rows {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, row...)
	}
	return append(text, ']')
}

// change returns the Change that turns before into after: it replaces what is between their common beginning and their common end.
func change(row int, before, after []byte) Change {
	start := 0
	for start < min(len(before), len(after)) && before[start] == after[start] {
		start++
	}
	for start > 0 && !utf8.RuneStart(after[min(start, len(after)-1)]) {
		start--
	}
	end := 0
	for end < min(len(before), len(after))-start && before[len(before)-1-end] == after[len(after)-1-end] {
		end++
	}
	for end > 0 && !utf8.RuneStart(after[len(after)-end]) {
		end--
	}
	return Change{row, start, len(before) - end, string(after[start : len(after)-end])}
}

// rowsAt reads the rows of a page. next is the offset of the next page, 0 if there is none.
func (in *Reader) rowsAt(offset, row int64) (rows []json.RawMessage, next int64, err error) {
	switch in.format {
	case CSV:
		return in.records(offset, row)
	case NDJSON, Lines:
		return in.lines(offset, row)
	}
	text, err := in.whole()
	if err != nil {
		return nil, 0, err
	}
	if in.format == Text {
		return []json.RawMessage{appendString(nil, string(text))}, 0, nil
	}
	var value bytes.Buffer
	if err := json.Compact(&value, text); err != nil {
		return nil, 0, notJSON(0, text, err)
	}
	return []json.RawMessage{value.Bytes()}, 0, nil
}

// records reads the rows of a page of CSV.
func (in *Reader) records(offset, row int64) (rows []json.RawMessage, next int64, err error) {
	if len(in.header) == 0 {
		return nil, 0, nil
	}
	offset = max(offset, in.start)
	r, limit := in.csv(offset)
	if offset == in.start {
		if _, err := r.Read(); err != nil {
			return nil, 0, wrongCSV(1, err)
		}
	}
	for r.InputOffset() < pageBytes {
		limit.left = maxRow
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, 0, nil
		}
		if err != nil && limit.left <= 0 {
			err = errRow // the CSV reader may report the limit as another error
		}
		if err != nil {
			return nil, 0, wrongCSV(row+int64(len(rows))+1, err)
		}
		if len(record) > maxFields {
			return nil, 0, &Error{row + int64(len(rows)) + 1, fmt.Sprintf("it has more than %d fields", maxFields)}
		}
		rows = append(rows, in.object(record))
	}
	if next = offset + r.InputOffset(); next >= in.size {
		next = 0
	}
	return rows, next, nil
}

// object returns a CSV row as a JSON object. Fields beyond the last column are named column_N.
func (in *Reader) object(record []string) json.RawMessage {
	size := 2
	for i, field := range record {
		size += len(field) + 4
		if i < len(in.header) {
			size += len(in.header[i])
		}
	}
	text := append(make([]byte, 0, size), '{')
	for i, field := range record {
		if i > 0 {
			text = append(text, ',')
		}
		if i < len(in.header) {
			text = append(text, in.header[i]...)
		} else {
			text = fmt.Appendf(text, `"column_%d":`, i+1)
		}
		text = appendString(text, field)
	}
	return append(text, '}')
}

// lines reads the rows of a page of NDJSON or Lines.
func (in *Reader) lines(offset, row int64) (rows []json.RawMessage, next int64, err error) {
	offset = max(offset, in.start)
	r, limit := in.from(offset)
	at := offset
	for at-offset < pageBytes {
		limit.left = maxRow
		line, err := readLine(r)
		if err != nil && !errors.Is(err, io.EOF) {
			if errors.Is(err, errRow) {
				return nil, 0, &Error{row + int64(len(rows)) + 1, errRow.Error()}
			}
			return nil, 0, fmt.Errorf("read the input: %w", err)
		}
		if len(line) == 0 {
			return rows, 0, nil
		}
		at += int64(len(line))
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if in.format == Lines {
			rows = append(rows, appendString(nil, string(line)))
			continue
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var value bytes.Buffer
		if err := json.Compact(&value, line); err != nil {
			return nil, 0, notJSON(row+int64(len(rows))+1, line, err)
		}
		rows = append(rows, value.Bytes())
	}
	if at >= in.size {
		at = 0
	}
	return rows, at, nil
}

// readLine reads a line with its line ending, which the last line may lack.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// appendString appends a JSON string. text is UTF-8.
func appendString(to []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' {
			encoded, _ := journal.Encode(text) // strings always encode
			return append(to, encoded...)
		}
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}
