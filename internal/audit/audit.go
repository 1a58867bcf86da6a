// Package audit writes a tamper-evident record of who did what into a file.
//
// # Form
//
// An event is one line with a JSON object. Its last members are
//
//	"seq"   its number, from 1
//	"prev"  the hash of the line before it, empty for the first
//	"hash"  the hash of everything before this member: sha256:… or, with a key, hmac-sha256:…
//
// so that a line that is changed, removed, inserted or moved breaks the chain. A second file, named like the log with .head appended, holds the
// number and hash of the last durable line. It shows when lines at the end were removed. A full file is renamed: .000000000042 at the end of its
// name means that its first line is line 42. The chain continues in the next file. If there are too many files, the oldest is removed. Its lines
// that are not routine, such as changes of keys and decisions, are first appended to a file whose name ends with .kept. The first
// line of the newest file has the number of kept lines, and a hash over the hashes of all kept lines.
//
// # Processes
//
// Several processes may append to one file: each line is written under the lock of the .head file.
//
// # What cannot be detected
//
//   - Without a key, the recomputation of the chain by a user who can write the files.
//   - With a key, the restoration of all files to an earlier state. For comparison, the server logs the number and hash of the last line whenever
//     it opens or closes a Log.
//   - The removal of the lines of the last second before a power failure, if they were not yet recorded in the .head file.
package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/disk"
)

// Event is one line of the log.
type Event struct {
	Time     time.Time      `json:"timestamp"`
	User     string         `json:"userId,omitempty"`
	Session  string         `json:"sessionId,omitempty"`
	Type     string         `json:"eventType"`
	Severity string         `json:"severity,omitempty"`
	Task     string         `json:"task,omitempty"`
	Run      string         `json:"run,omitempty"`
	Details  map[string]any `json:"details,omitempty"`
}

// The types of the events that a Log itself writes.
const (
	// typeGap marks missing events: details has the number of lost events, or what was found at the end of the file.
	typeGap = "audit_gap"
	// typeRotated marks the first line of a file that continues another file. details.first is the number of the oldest line that is left in the
	// files, details.kept the number of lines in the .kept file, and details.keptHash their hash.
	typeRotated = "audit_rotated"
)

// Options configure a Log.
type Options struct {
	Path     string
	Key      string // key of the hashes; empty for hashes without a key
	MaxSize  int64  // maximum number of bytes of a file
	MaxFiles int    // maximum number of files, the current one included
	Now      func() time.Time
}

const (
	maxLine   = 64 << 10        // maximum number of bytes of a line; longer events lose their details
	maxWait   = 5 * time.Second // maximum wait for the lock
	syncAfter = time.Second     // delay between the first line that is not durable and the sync that makes it durable
	headName  = ".head"
)

// Log appends events to a file. Its methods are safe for concurrent use.
type Log struct {
	opt   Options
	chain chain

	mu     sync.Mutex
	last   line // last line that this process knows
	at     position
	lost   int  // number of events that could not be written since the last successful write
	noted  bool // the head file has been written
	dirty  bool
	timer  *time.Timer
	closed bool
}

// line holds those fields of a line of the log on which the next line depends.
type line struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// position is the file and its size as this process last saw them. If they differ now, another process has written.
type position struct {
	file fs.FileInfo
	size int64
}

// Open prepares a log for appending. It returns an error if the file cannot be written.
func Open(o Options) (*Log, error) {
	l := &Log{opt: o, chain: chain{[]byte(o.Key)}}
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	if err := l.locked(func(head *os.File) error { return l.within(head, func(*os.File) error { return nil }) }); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	return l, nil
}

// Append writes an event. The event survives the end of the process, and after a second also a power failure. If events could not
// be written, the next successful write first records how many.
func (l *Log) Append(e Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.append(e)
	if err != nil {
		l.lost++
		return fmt.Errorf("write the audit log: %w", err)
	}
	return nil
}

// Ready returns nil if the file can be written. If the last write failed, Ready tries again.
func (l *Log) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == 0 {
		return nil
	}
	if err := l.append(Event{}); err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}
	return nil
}

// Last returns the number and hash of the last line that this process knows.
func (l *Log) Last() (seq int64, hash string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.Seq, l.last.Hash
}

// Close makes all events durable. Append fails after Close.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	err := l.sync()
	l.closed = true
	return err
}

// append writes a line about lost events, if there are any, and the event e if it has a type.
func (l *Log) append(e Event) error {
	if l.closed {
		return fs.ErrClosed
	}
	return l.locked(func(head *os.File) error {
		return l.within(head, func(f *os.File) error {
			events := make([]Event, 0, 2)
			if l.lost > 0 {
				events = append(events, l.own(typeGap, map[string]any{"lost": l.lost}))
			}
			if e.Type != "" {
				events = append(events, e)
			}
			if err := l.write(f, events...); err != nil {
				return err
			}
			l.lost = 0
			if l.noted {
				return nil
			}
			if _, err := readHead(head); err != nil { // this was the first line of the log
				return l.note(head)
			}
			l.noted = true
			return nil
		})
	})
}

func (l *Log) own(typ string, details map[string]any) Event {
	return Event{Time: l.opt.Now(), Type: typ, Severity: "medium", Details: details}
}

// locked calls do while it holds the lock of the head file, which excludes other processes.
func (l *Log) locked(do func(head *os.File) error) error {
	head, err := os.OpenFile(l.opt.Path+headName, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer head.Close() // releases the lock
	if err := lock(head); err != nil {
		return err
	}
	return do(head)
}

// lock waits for the lock of a file.
func lock(f *os.File) error {
	pause := 50 * time.Microsecond
	for end := time.Now().Add(maxWait); ; time.Sleep(pause) {
		locked, err := disk.TryLock(f, true)
		switch {
		case err != nil || locked:
			return err
		case time.Now().After(end):
			return fmt.Errorf("another process has held the lock of %s for %s", f.Name(), maxWait)
		}
		pause = min(2*pause, 10*time.Millisecond)
	}
}

// within opens the file of the log, finds the end of the file, and calls do with the file.
func (l *Log) within(head *os.File, do func(*os.File) error) error {
	f, err := os.OpenFile(l.opt.Path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() // rotate may have closed f already. The errors that matter are those of write.
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if l.at.file == nil || !os.SameFile(l.at.file, info) || l.at.size != info.Size() {
		if err := l.find(head, f, info); err != nil {
			return err
		}
	}
	return do(f)
}

// find reads the end of the file after other processes have written. If lines are missing at the end, find writes a gap event, whose number follows
// that of the last known line. If the last line is incomplete, find removes it and writes a gap event too.
func (l *Log) find(head, f *os.File, info fs.FileInfo) error {
	found, size, err := l.end(f, info.Size())
	if err != nil {
		return err
	}
	known := l.last
	if durable, err := readHead(head); err == nil && durable.Seq > known.Seq {
		known = durable
	}
	l.at = position{info, size}
	torn := size < info.Size()
	if torn {
		if err := f.Truncate(size); err != nil {
			return err
		}
	}
	l.last = found
	details := map[string]any{}
	if torn {
		details["incomplete"] = info.Size() - size
	}
	if known.Seq > found.Seq {
		l.last = known
		details["found"], details["expected"] = found.Seq, known.Seq
	}
	if len(details) == 0 {
		return nil
	}
	return l.write(f, l.own(typeGap, details))
}

// end returns the last whole line and the offset of its end.
func (l *Log) end(f *os.File, size int64) (last line, end int64, err error) {
	begin := max(0, size-2*maxLine)
	text := make([]byte, size-begin)
	if _, err := f.ReadAt(text, begin); err != nil && !errors.Is(err, io.EOF) {
		return last, 0, err
	}
	text = text[:strings.LastIndexByte(string(text), '\n')+1]
	end = begin + int64(len(text))
	if end == 0 { // a new file continues the newest full file
		return l.lastOfFull()
	}
	if begin > 0 && len(text) == 0 {
		return last, size, nil // the file is no audit log; the next line breaks the chain
	}
	text = text[strings.LastIndexByte(string(text[:len(text)-1]), '\n')+1:]
	parsed, _ := parse(text) // a malformed line breaks the chain, and Verify reports it
	return line{parsed.Seq, parsed.Hash}, end, nil
}

func (l *Log) lastOfFull() (last line, end int64, err error) {
	full, err := fullFiles(l.opt.Path)
	if err != nil || len(full) == 0 {
		return last, 0, err
	}
	f, err := os.Open(full[len(full)-1].path)
	if err != nil {
		return last, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.Size() > 0 {
		last, _, err = l.end(f, info.Size())
	}
	return last, 0, err
}

// write appends events as lines. If that fails, it restores the old size of the file.
func (l *Log) write(f *os.File, events ...Event) error {
	next, text := l.last, []byte(nil)
	for _, e := range events {
		encoded, hash, err := l.chain.encode(e, next)
		if err != nil {
			return err
		}
		text, next = append(text, encoded...), line{next.Seq + 1, hash}
	}
	if l.at.size > 0 && l.at.size+int64(len(text)) > l.opt.MaxSize {
		return l.rotate(f, events)
	}
	if _, err := f.WriteAt(text, l.at.size); err != nil {
		return errors.Join(err, f.Truncate(l.at.size))
	}
	l.last = next
	l.at.size += int64(len(text))
	if !l.dirty && len(text) > 0 {
		l.dirty = true
		l.timer = time.AfterFunc(syncAfter, l.syncLater)
	}
	return nil
}

// rotate renames the file and writes the events into a new one.
func (l *Log) rotate(f *os.File, events []Event) (err error) {
	first, err := firstOf(f)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil { // Windows cannot rename an open file
		return err
	}
	if err := os.Rename(l.opt.Path, fullName(l.opt.Path, first)); err != nil {
		return err
	}
	full, err := fullFiles(l.opt.Path)
	if err != nil {
		return err
	}
	keep := full[max(0, len(full)-l.opt.MaxFiles+1):]
	left, err := l.keep(full[:len(full)-len(keep)])
	if err != nil {
		return err
	}
	next, err := os.OpenFile(l.opt.Path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, next.Close()) }()
	info, err := next.Stat()
	if err != nil {
		return err
	}
	l.at = position{info, 0}
	details := map[string]any{"first": keep[0].first}
	if left.lines > 0 {
		details["kept"], details["keptHash"] = left.lines, left.sum
	}
	rotated := l.own(typeRotated, details)
	rotated.Severity = "low"
	if err := l.write(next, slices.Insert(slices.Clone(events), 0, rotated)...); err != nil {
		return err
	}
	for _, old := range full[:len(full)-len(keep)] {
		err = errors.Join(err, os.Remove(old.path))
	}
	return err
}

// syncLater calls sync when the timer fires.
func (l *Log) syncLater() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		_ = l.sync() // Close or the next sync tries again
	}
}

// sync makes the lines durable, and then writes the last line's number and hash into the head file.
func (l *Log) sync() error {
	if !l.dirty {
		return nil
	}
	err := l.locked(func(head *os.File) error {
		return l.within(head, func(f *os.File) error {
			if err := f.Sync(); err != nil {
				return err
			}
			return l.note(head)
		})
	})
	l.dirty = false
	if err != nil {
		l.dirty = true
		return fmt.Errorf("write the audit log: %w", err)
	}
	return nil
}

// note writes the last line's number and hash into the head file.
func (l *Log) note(head *os.File) error {
	text, err := json.Marshal(l.last)
	if err != nil {
		return err
	}
	text = fmt.Appendf(nil, "%-*s\n", headSize-1, text) // padded to a fixed length, so that it overwrites the whole earlier entry
	if _, err := head.WriteAt(text, 0); err != nil {
		return err
	}
	l.noted = true
	return head.Sync()
}

const headSize = 160

func readHead(head *os.File) (last line, err error) {
	text := make([]byte, headSize)
	n, err := head.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return last, err
	}
	return last, json.Unmarshal(text[:n], &last)
}

// chain computes the hashes of lines.
type chain struct {
	key []byte // empty for hashes without a key
}

const (
	plain = "sha256:"
	keyed = "hmac-sha256:"
)

func (c chain) hash(body []byte) string {
	h, name := sha256.New(), plain
	if len(c.key) > 0 {
		h, name = hmac.New(sha256.New, c.key), keyed
	}
	h.Write(body)
	return name + hex.EncodeToString(h.Sum(nil))
}

const hashMember = `,"hash":"`

// encode returns an event as the line that follows prev, and the line's hash.
func (c chain) encode(e Event, prev line) (text []byte, hash string, err error) {
	e.Time = e.Time.UTC()
	body, err := json.Marshal(e)
	if err != nil || len(body) > maxLine-1024 {
		e.Details = map[string]any{"omitted": "the details are too long, or no JSON"}
		e.User, e.Session = e.User[:min(len(e.User), 256)], e.Session[:min(len(e.Session), 256)]
		if body, err = json.Marshal(e); err != nil {
			return nil, "", err
		}
	}
	body = fmt.Appendf(body[:len(body)-1], `,"seq":%d,"prev":%q`, prev.Seq+1, prev.Hash)
	hash = c.hash(body)
	return append(append(append(body, hashMember...), hash...), "\"}\n"...), hash, nil
}

// parsed is a line that was read from a log.
type parsed struct {
	Event
	Seq  int64  `json:"seq"`
	Prev string `json:"prev"`
	Hash string `json:"hash"`

	body []byte // text that the hash covers
}

func parse(text []byte) (p parsed, err error) {
	text = []byte(strings.TrimSuffix(string(text), "\n"))
	at := strings.LastIndex(string(text), hashMember)
	if err := json.Unmarshal(text, &p); err != nil || at < 0 {
		return parsed{}, errors.New("it is no event")
	}
	if string(text[at:]) != hashMember+p.Hash+`"}` {
		return parsed{}, errors.New("it does not end with its hash")
	}
	p.body = text[:at]
	return p, nil
}
