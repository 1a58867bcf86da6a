package sqlstore

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/task"
)

// TestLiveFiles checks the files of followers: without a follower there is no file, the file of a killed follower is removed, and the size of a file
// that is not read is bounded.
func TestLiveFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "harness.db")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	files := func() []string {
		all, err := filepath.Glob(path + liveInfix + "*")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	piece := []task.Event{{Type: task.EventDelta, Data: json.RawMessage(`{"text":"` + strings.Repeat("x", 100<<10) + `"}`)}}
	s.Publish("task_1", piece)
	if all := files(); len(all) > 0 {
		t.Fatalf("%v without a follower", all)
	}
	dead := path + liveInfix + "task_1.killed"
	if err := os.WriteFile(dead, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := makeLive(path, "task_1") // a follower that reads nothing
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if all := files(); len(all) != 1 || all[0] != f.Name() {
		t.Errorf("files %v, and not only %s", all, f.Name())
	}
	s.database.(*file).live.until = s.database.(*file).live.until.Add(-liveScan) // makes Publish look for files again
	for range 50 {
		s.Publish("task_1", piece)
		s.Publish("task_2", piece)
	}
	info, err := f.Stat()
	if err != nil || info.Size() == 0 || info.Size() > maxLiveBytes {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	followed := make(chan error, 1)
	go func() {
		followed <- s.Follow(ctx, "task_3", func(events []task.Event) {
			if len(events) != 1 || events[0].ID != 7 || events[0].Type != "" {
				t.Errorf("got %+v", events)
			}
			cancel()
		})
	}()
	for ctx.Err() == nil { // Publish looks for the follower's file at intervals
		s.Publish("task_3", []task.Event{{ID: 7, Type: task.EventTurn, Data: json.RawMessage(`{"secret":1}`)}})
		if all, _ := filepath.Glob(path + liveInfix + "task_3*"); len(all) > 0 {
			if text, _ := os.ReadFile(all[0]); len(text) > 0 {
				<-ctx.Done()
			}
		}
	}
	if err := <-followed; err != nil {
		t.Error(err)
	}
	if all := files(); len(all) != 1 {
		t.Errorf("the file of a follower that has ended is left: %v", all)
	}
}
