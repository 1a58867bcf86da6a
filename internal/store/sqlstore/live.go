package sqlstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
)

const (
	liveInfix = ".live-"
	// liveScan is the interval at which a process that works on tasks looks for followers in other processes.
	liveScan = 250 * time.Millisecond
	// liveRead is the interval at which a follower reads its file.
	liveRead = 100 * time.Millisecond
	// maxLiveFiles is the maximum number of files of followers that this process writes to.
	maxLiveFiles = 64
	// maxLiveBytes is the maximum size of a file. If a follower reads too slowly, the lines that it has not read are lost, and the
	// follower reads the store instead.
	maxLiveBytes = 1 << 20
)

// live lists the files through which events reach followers in other processes. A follower creates a file beside the database, named after its
// task, and keeps it locked. The process that works on the task appends a line for each event. Nothing is written while a task has no follower.
// The file of a killed follower is removed like the file of a killed owner.
type live struct {
	mu    sync.Mutex
	files map[string][]string // paths of the files, by task id
	until time.Time           // time of the next search for files
}

// Wake implements task.Bus. It does nothing: only one process works the queue of a file, and this process looks for tasks of other processes at
// intervals.
func (d *file) Wake() {}

// Woken implements task.Bus.
func (d *file) Woken(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

// Publish implements task.Bus.
func (d *file) Publish(id string, events []task.Event) {
	d.live.mu.Lock()
	defer d.live.mu.Unlock()
	if now := time.Now(); !now.Before(d.live.until) {
		d.live.files, d.live.until = liveFiles(d.path), now.Add(liveScan)
	}
	paths := d.live.files[id]
	if len(paths) == 0 {
		return
	}
	lines, err := liveLines(events)
	for _, path := range paths {
		if err == nil {
			// A missing file belonged to a follower that has ended. Other errors may lose events for followers, but never fail the task.
			_ = appendLive(path, lines)
		}
	}
}

// liveFiles finds the files of followers.
func liveFiles(db string) map[string][]string {
	entries, err := os.ReadDir(filepath.Dir(db))
	if err != nil {
		return nil
	}
	var files map[string][]string
	n := 0
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), filepath.Base(db)+liveInfix)
		id, _, named := strings.Cut(name, ".")
		if !ok || !named {
			continue
		}
		if n++; n > maxLiveFiles {
			break
		}
		if files == nil {
			files = map[string][]string{}
		}
		files[id] = append(files[id], filepath.Join(filepath.Dir(db), e.Name()))
	}
	return files
}

// liveLines encodes events as lines: pieces in full, stored events only as their ids.
func liveLines(events []task.Event) ([]byte, error) {
	if len(events) == 0 {
		events = []task.Event{{}}
	}
	var b bytes.Buffer
	for _, e := range events {
		if e.ID > 0 {
			e = task.Event{ID: e.ID}
		}
		line, err := journal.Encode(liveEvent{e, e.After})
		if err != nil {
			return nil, err
		}
		b.Write(append(line, '\n'))
	}
	return b.Bytes(), nil
}

// liveEvent is the JSON of an event for followers: a line of a file, or a part of a notification (see bus).
type liveEvent struct {
	task.Event
	After int64 `json:"after,omitempty"`
}

func appendLive(path string, lines []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0) // never creates the file
	if err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil && size+int64(len(lines)) > maxLiveBytes {
		err = f.Truncate(0)
		lines = []byte("{}\n")
	}
	if err == nil {
		_, err = f.Write(lines)
	}
	return errors.Join(err, f.Close())
}

// Follow implements task.Bus.
func (d *file) Follow(ctx context.Context, id string, pass func([]task.Event)) (err error) {
	defer wrap(&err, "follow a task of another process")
	f, err := makeLive(d.path, id)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close(), os.Remove(f.Name())) // closed first: Windows does not delete an open file
	}()
	again := time.NewTicker(liveRead)
	defer again.Stop()
	var at int64    // start of the next line
	var rest []byte // incomplete line
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if info.Size() < at { // the file was too long and has been truncated
			at, rest = 0, nil
		}
		text, err := io.ReadAll(io.NewSectionReader(f, at, maxLiveBytes))
		if err != nil {
			return err
		}
		at += int64(len(text))
		if rest = append(rest, text...); len(rest) > 2*maxLiveBytes {
			rest = nil
		}
		end := bytes.LastIndexByte(rest, '\n') + 1
		var events []task.Event
		for line := range bytes.Lines(rest[:end]) {
			var e liveEvent
			if json.Unmarshal(line, &e) == nil {
				e.Event.After = e.After
				events = append(events, e.Event)
			}
		}
		if rest = rest[end:]; len(events) > 0 {
			pass(events)
		}
	}
}

// makeLive creates and locks the file of a follower, and removes the files of dead followers.
func makeLive(db, id string) (*os.File, error) {
	sweepUnlocked(db + liveInfix)
	// Another follower's sweep may remove the file before it is locked.
	for range 5 {
		f, err := os.OpenFile(db+liveInfix+id+"."+strings.ToLower(rand.Text()[:16]), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		locked, err := disk.TryLock(f, true)
		if err == nil && locked && isAt(f, f.Name()) {
			return f, nil
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("the files of followers beside %s are deleted again and again", db)
}
