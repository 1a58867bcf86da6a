package audit

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// all reads a log page by page.
func all(t *testing.T, path string, q Query) (seqs []int64, pages int) {
	t.Helper()
	for {
		p, err := Read(path, q)
		if err != nil {
			t.Fatal(err)
		}
		if pages++; len(p.Entries) > q.Limit {
			t.Fatalf("a page of %d events", len(p.Entries))
		}
		for _, e := range p.Entries {
			seqs = append(seqs, e.Seq)
		}
		if q.Cursor = p.Next; q.Cursor == "" {
			return seqs, pages
		}
	}
}

// The events of all files are read backwards, each once, even if files become full between two pages. Filters select events.
func TestRead(t *testing.T) {
	t.Parallel()
	l, path := setup(t, Options{MaxSize: 100 << 10, MaxFiles: 100})
	const events = 1500
	for i := range events {
		e := event(strings.Repeat("x", i%1000))
		if i%100 == 7 {
			e.User, e.Type = "bob", "key_change"
		}
		if err := l.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	files, err := fullFiles(path)
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	first, err := Read(path, Query{Limit: 50})
	if err != nil || len(first.Entries) != 50 || first.Entries[0].Seq != first.Seq || !strings.HasPrefix(first.Hash, plain) {
		t.Fatalf("the first page: %d events, number %d, %v", len(first.Entries), first.Seq, err)
	}
	seqs, pages := all(t, path, Query{Limit: 50})
	last := first.Seq
	if int64(len(seqs)) != last || pages < 30 {
		t.Errorf("%d events in %d pages, want %d", len(seqs), pages, last)
	}
	for i, seq := range seqs {
		if seq != last-int64(i) {
			t.Fatalf("event %d of the list has number %d, want %d", i, seq, last-int64(i))
		}
	}
	for _, q := range []Query{{User: "bob", Limit: 4}, {Type: "key_change", Limit: 4}, {User: "bob", Type: "key_change", Limit: 100}} {
		if seqs, _ := all(t, path, q); len(seqs) != events/100 {
			t.Errorf("%+v: %d events", q, len(seqs))
		}
	}
	// The following pages stay the same while further events go to another file.
	for i := range 200 {
		mustAppend(t, l, strings.Repeat(fmt.Sprint(i%10), 1000))
	}
	rest, _ := all(t, path, Query{Limit: 50, Cursor: first.Next})
	if !slices.Equal(rest, seqs[50:]) {
		t.Errorf("behind the first page are %d events, want %d", len(rest), len(seqs)-50)
	}
	for _, cursor := range []string{"x", "1", "-1-2", "1-x", "1--2"} {
		if _, err := Read(path, Query{Limit: 1, Cursor: cursor}); !errors.Is(err, ErrCursor) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

// A page reads a bounded part of the log, even if no event matches the filter.
func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	l, path := setup(t, Options{MaxSize: 64 << 20, MaxFiles: 2})
	for range 400 {
		mustAppend(t, l, strings.Repeat("x", 30<<10))
	}
	p, err := Read(path, Query{Type: "none", Limit: 50})
	if err != nil || len(p.Entries) != 0 || p.Next == "" {
		t.Errorf("one page looked through %d MiB: %v", 400*30>>10, err)
	}
	if seqs, pages := all(t, path, Query{Type: "none", Limit: 50}); len(seqs) != 0 || pages < 3 || pages > 5 {
		t.Errorf("%d events in %d pages", len(seqs), pages)
	}
}

// Read leaves out lines that are not events and returns the events around them. It does not check the chain.
func TestReadOfADamagedLog(t *testing.T) {
	t.Parallel()
	l, path := setup(t, Options{})
	for range 3 {
		mustAppend(t, l, "x")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	for name, damaged := range map[string]string{
		"not JSON": lines[0] + "nothing\n" + lines[2], "torn": lines[0] + lines[2] + lines[1][:20], "long": lines[0] + strings.Repeat("x", 3*pageBlock) + "\n" + lines[2],
		"no end": lines[0] + lines[2] + strings.Repeat("x", 2*pageBlock),
	} {
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if seqs, _ := all(t, path, Query{Limit: 10}); !slices.Equal(seqs, []int64{3, 1}) {
			t.Errorf("%s: %v", name, seqs)
		}
	}
}
