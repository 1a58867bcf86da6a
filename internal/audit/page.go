package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Query selects events of a log. An empty User or Type selects all.
type Query struct {
	User, Type string
	Limit      int    // maximum number of events; 0 selects none
	Cursor     string // Page.Next of the previous page; empty for the first page
}

// Entry is a line of a log. Its hash is not checked.
type Entry struct {
	Event
	Seq int64 `json:"seq"`
}

// Page holds events of a log, the newest first.
type Page struct {
	Entries []Entry `json:"entries"`
	Next    string  `json:"next,omitempty" doc:"The cursor of the next page; absent on the last one. A page may be short, or empty, where few of many events match."`
	// Seq and Hash are the number and hash of the last line. Only the first page has them.
	Seq  int64  `json:"seq,omitempty" doc:"Number of the last line; on the first page."`
	Hash string `json:"hash,omitempty" doc:"Hash of the last line: compare it with one that was noted elsewhere."`
}

const (
	pageBytes = 4 << 20 // maximum number of bytes that one page reads
	pageBlock = 256 << 10
)

// ErrCursor is the error for a malformed cursor.
var ErrCursor = errors.New("unknown cursor")

// Read returns a page of a log. Other processes may write to the log meanwhile. Read reads backwards from the cursor, at most about pageBytes.
func Read(path string, q Query) (*Page, error) {
	p := &Page{Entries: []Entry{}}
	if err := p.read(path, q); err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return p, nil
}

func (p *Page) read(path string, q Query) error {
	files, err := fullFiles(path)
	if err != nil {
		return err
	}
	from, end := int64(-1), int64(-1)
	if q.Cursor != "" {
		first, at, _ := strings.Cut(q.Cursor, "-")
		var err, err2 error
		from, err = strconv.ParseInt(first, 10, 64)
		end, err2 = strconv.ParseInt(at, 10, 64)
		if err != nil || err2 != nil || from < 0 || end < 0 {
			return ErrCursor
		}
	}
	files = append(files, full{path: path})
	left := pageBytes
	for i := len(files) - 1; i >= 0; i-- {
		f, err := os.Open(files[i].path)
		if errors.Is(err, fs.ErrNotExist) { // the log has just been rotated, or has no lines yet
			continue
		}
		if err != nil {
			return err
		}
		done, err := p.readFile(f, q, from, &end, &left)
		f.Close()
		if err != nil || done {
			return err
		}
	}
	return nil
}

// readFile reads one file backwards from end, or from the end of the file if end is negative. If from is not negative, it skips a file whose first
// line has a number above from. It reports whether the page is full.
func (p *Page) readFile(f *os.File, q Query, from int64, end *int64, left *int) (done bool, err error) {
	first, err := firstOf(f)
	if err != nil || from >= 0 && first > from {
		return false, err
	}
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	at := info.Size()
	if from == first && *end >= 0 {
		at, *end = min(*end, at), -1
	}
	for at > 0 {
		if *left <= 0 || len(p.Entries) >= q.Limit {
			p.Next = fmt.Sprintf("%d-%d", first, at)
			return true, nil
		}
		begin := max(0, at-pageBlock)
		text := make([]byte, at-begin)
		if _, err := f.ReadAt(text, begin); err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		*left -= len(text)
		if begin > 0 { // the beginning of the block may be the rest of a line
			cut := bytes.IndexByte(text, '\n') + 1
			if cut == 0 || cut == len(text) { // a line that is too long is skipped
				at = begin
				continue
			}
			text, begin = text[cut:], begin+int64(cut)
		}
		for len(text) > 0 && len(p.Entries) < q.Limit {
			start := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
			e, err := parse(text[start:])
			if err == nil && p.Seq == 0 && q.Cursor == "" {
				p.Seq, p.Hash = e.Seq, e.Hash
			}
			if err == nil && (q.User == "" || e.User == q.User) && (q.Type == "" || e.Type == q.Type) {
				p.Entries = append(p.Entries, Entry{e.Event, e.Seq})
			}
			text = text[:start]
		}
		at = begin + int64(len(text))
	}
	return false, nil
}
