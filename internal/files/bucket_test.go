package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/bucket"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/testing/buckettest"
)

func keys(t *testing.T, b *bucketBase) (all []string) {
	t.Helper()
	if err := b.objects.List(t.Context(), b.prefix, true, func(o bucket.Object) error {
		all = append(all, strings.TrimPrefix(o.Key, b.prefix))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// blobs returns the number of objects with content of files.
func blobs(t *testing.T, b *bucketBase) (n int) {
	t.Helper()
	for _, key := range keys(t, b) {
		if strings.Contains(key, "/"+dataKey) {
			n++
		}
	}
	return n
}

// Processes that change one directory at once lose nothing: all appends are in the file, each whole, all files are there, and nothing else is in the bucket.
func TestBucketProcesses(t *testing.T) {
	t.Parallel()
	server := buckettest.Start(t)
	const processes, writes = 4, 15
	var dirs []*Dir
	for range processes {
		dirs = append(dirs, dirOf(t, inBucket(t, server, "w", Options{Section: "workspace", Limits: Limits{MaxBytes: 1 << 20, MaxFiles: 1000, MaxUserBytes: 1 << 20}}), "ann", "s1"))
	}
	var wg sync.WaitGroup
	for p, d := range dirs {
		wg.Go(func() {
			for i := range writes {
				err := d.AppendFile(t.Context(), "log", fmt.Appendf(nil, "%d-%02d\n", p, i))
				err = errors.Join(err, d.WriteFile(fmt.Sprintf("own/%d/%d", p, i), []byte("x")))
				err = errors.Join(err, d.WriteFile("same", bytes.Repeat([]byte{byte('a' + p)}, 1000)))
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, d := range dirs {
		log, err := d.ReadFile("log", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		next := make([]int, processes)
		for line := range strings.Lines(string(log)) {
			var p, i int
			if _, err := fmt.Sscanf(line, "%d-%d\n", &p, &i); err != nil || i != next[p] {
				t.Fatalf("line %q of process %d comes in place of %d: %v", line, p, next[p], err)
			}
			next[p]++
		}
		for p, n := range next {
			if n != writes {
				t.Errorf("%d lines of process %d are there", n, p)
			}
		}
		if same, err := d.ReadFile("same", 0, -1); err != nil || len(same) != 1000 || len(bytes.Trim(same, string(same[:1]))) != 0 {
			t.Errorf("the file of all is %.20q…, %v", same, err)
		}
		wantUsage(t, d, Usage{Bytes: int64(len(log)) + 1000 + processes*writes, Files: 2 + 1 + processes + processes*writes})
	}
	b := dirs[0].directory.(*bucketDir).base
	if n := blobs(t, b); n != 2+processes*writes {
		t.Errorf("%d objects have the content of %d files", n, 2+processes*writes)
	}
}

// Writers in several processes and sessions do not exceed the quotas of their user and of a session together, and a neighbour is not affected.
func TestBucketQuotas(t *testing.T) {
	t.Parallel()
	server := buckettest.Start(t)
	opts := Options{Section: "workspace", Limits: Limits{MaxBytes: 6000, MaxUserBytes: 10_000}}
	var stored atomic.Int64
	var wg sync.WaitGroup
	var bases []*bucketBase
	for p := range 4 {
		b := inBucket(t, server, "w", opts)
		bases = append(bases, b)
		d := dirOf(t, b, "mallory", fmt.Sprint("s", p%2))
		wg.Go(func() {
			for i := range 12 {
				if err := d.WriteFile(fmt.Sprint(p, "-", i), make([]byte, 500)); err != nil {
					wantCode(t, err, NoSpace)
					continue
				}
				stored.Add(500)
			}
		})
	}
	neighbour := dirOf(t, inBucket(t, server, "w", opts), "bob", "s0")
	for i := range 12 {
		write(t, neighbour, fmt.Sprint(i), strings.Repeat("x", 500))
	}
	wg.Wait()
	if got := stored.Load(); got != 10_000 {
		t.Errorf("%d bytes were stored, and the quota has room for 10,000", got)
	}
	left := dirOf(t, bases[0], "mallory", "s0")
	used := usageOf(t, left).Bytes
	if used > 6000 {
		t.Errorf("a session has %d bytes", used)
	}
	if err := bases[1].Remove("mallory", "s0"); err != nil {
		t.Fatal(err)
	}
	d := dirOf(t, bases[2], "mallory", "s2")
	write(t, d, "a", strings.Repeat("x", int(used))) // what was removed is free again
	wantCode(t, d.WriteFile("b", []byte("x")), NoSpace)
}

// A removal in one process ends the directory in all others, also if it is created again.
func TestBucketRemoved(t *testing.T) {
	t.Parallel()
	server := buckettest.Start(t)
	one, two := inBucket(t, server, "w", Options{Section: "workspace"}), inBucket(t, server, "w", Options{Section: "workspace"})
	d, other, reader := dirOf(t, one, "ann", "s1"), dirOf(t, two, "ann", "s1"), dirOf(t, inBucket(t, server, "w", Options{Section: "workspace"}), "ann", "s1")
	write(t, d, "a", "1")
	wantFile(t, other, "a", "1")
	wantFile(t, reader, "a", "1")
	if err := one.Remove("ann", "s1"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, other.WriteFile("b", []byte("2")), NotFound)
	if got := keys(t, one); len(got) != 0 {
		t.Errorf("left are %v", got)
	}
	again := dirOf(t, one, "ann", "s1")
	write(t, again, "c", "3")
	if _, err := reader.ReadFile("c", 0, -1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a reader from before the removal: %v", err)
	}
	wantCode(t, reader.AppendFile(t.Context(), "c", []byte("4")), NotFound)
	wantFile(t, again, "c", "3")
	wantFile(t, dirOf(t, two, "ann", "s1"), "c", "3")
}

// Sweep completes a removal that was interrupted and removes the directories of ended runs; a change removes objects that nothing has referred to for a
// day. Nothing that is in use is removed.
func TestBucketSweep(t *testing.T) {
	t.Parallel()
	server := buckettest.Start(t)
	b := inBucket(t, server, "w", Options{Section: "workspace"})
	ctx := t.Context()
	ended, running := id.New("run"), id.New("run")
	for _, of := range []string{"kept", "removed", ended, running} {
		write(t, dirOf(t, b, "ann", of), "file", of)
	}
	removed, err := b.list(ctx, []string{"ann", "removed"})
	if err != nil {
		t.Fatal(err)
	}
	for key, text := range map[string]string{
		removedKey + "ann/removed": removed.list.Born, "ann/kept/" + dataKey + "ORPHAN": "x", runsKey + "ann/" + id.New("run") + "/" + dataKey + "ORPHAN": "x",
	} {
		if _, err := b.objects.Put(ctx, b.prefix+key, []byte(text), ""); err != nil {
			t.Fatal(err)
		}
	}
	later := inBucket(t, server, "w", Options{Section: "workspace"})
	later.now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	if err := later.Sweep(ctx, time.Now().Add(time.Hour), func(run string) bool { return run != running }); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys(t, b) {
		if strings.HasPrefix(key, removedKey) || strings.HasPrefix(key, "ann/removed/") && !strings.HasSuffix(key, useKey) || strings.Contains(key, ended) ||
			strings.HasPrefix(key, runsKey) && !strings.Contains(key, running) {
			t.Errorf("left is %s", key)
		}
	}
	kept := dirOf(t, later, "ann", "kept")
	wantFile(t, kept, "file", "kept")
	wantFile(t, dirOf(t, b, "ann", running), "file", running)
	before := blobs(t, b)
	write(t, kept, "file", "new")
	if after := blobs(t, b); after != before-1 {
		t.Errorf("%d objects have content, %d had", after, before)
	}
	wantFile(t, kept, "file", "new")
}

// A server that is killed at any moment of many writes loses nothing that was acknowledged, and every file is whole.
func TestBucketKilled(t *testing.T) {
	t.Parallel()
	server := buckettest.Start(t)
	b := inBucket(t, server, "w", Options{Section: "workspace", Limits: Limits{MaxUserBytes: 1 << 30}})
	d := dirOf(t, b, "ann", "s1")
	stop := make(chan struct{})
	lines, last := 0, 0
	var unknown []int // lines whose append failed
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := d.AppendFile(t.Context(), "log", fmt.Appendf(nil, "%d\n", i)); err != nil {
				wantCode(t, err, IO)
				unknown = append(unknown, i)
			} else {
				lines++
			}
			if err := d.WriteFile("whole", bytes.Repeat(fmt.Appendf(nil, "%07d\n", i), 10_000)); err == nil {
				last = i
			} else {
				wantCode(t, err, IO)
			}
		}
	}()
	for range 5 {
		before := blobs(t, b)
		for until := time.Now().Add(5 * time.Second); blobs(t, b) == before && time.Now().Before(until); { // it writes
		}
		server.Kill()
		server.Restart(t)
	}
	close(stop)
	<-done
	log, err := d.ReadFile("log", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for line := range strings.Lines(string(log)) {
		seen[line]++
	}
	for line, n := range seen {
		if n != 1 {
			t.Errorf("line %q is there %d times", line, n)
		}
	}
	if missing := lines - len(seen); missing > 0 {
		t.Errorf("%d of %d lines are lost", missing, lines)
	}
	if len(seen) > lines+len(unknown) {
		t.Errorf("there are %d lines; %d were acknowledged, and %d are unknown", len(seen), lines, len(unknown))
	}
	whole, err := d.ReadFile("whole", 0, -1)
	if err != nil || len(whole) != 80_000 || !bytes.Equal(whole, bytes.Repeat(whole[:8], 10_000)) || string(whole[:8]) < fmt.Sprintf("%07d\n", last) {
		t.Errorf("the file has %d bytes and begins with %.8q, the last write was %d: %v", len(whole), whole, last, err)
	}
}

// A large file is in several objects; reads at any offset give its bytes, and a truncation cuts it.
func TestBucketLargeFile(t *testing.T) {
	t.Parallel()
	server := buckettest.Start(t)
	b := inBucket(t, server, "w", Options{Section: "workspace"})
	d := dirOf(t, b, "ann", "s1")
	data := make([]byte, 2*blobBytes+12345)
	for i := range data {
		data[i] = byte(i >> 8 * 31)
	}
	if err := d.WriteFile("large", data); err != nil {
		t.Fatal(err)
	}
	if n := blobs(t, b); n != 3 {
		t.Errorf("it is in %d objects", n)
	}
	f, info, err := d.Open("large")
	if err != nil || info.Size() != int64(len(data)) {
		t.Fatal(info, err)
	}
	defer f.Close()
	for _, at := range []int{0, 1, 100_000, blobBytes - 1, blobBytes, blobBytes + 1, 2*blobBytes - 70_000, len(data) - 1} {
		for _, n := range []int{1, 1000, 70_000, 2 << 20} {
			n = min(n, len(data)-at)
			got := make([]byte, n)
			if _, err := f.ReadAt(got, int64(at)); err != nil || !bytes.Equal(got, data[at:at+n]) {
				t.Errorf("%d bytes at %d differ: %v", n, at, err)
			}
		}
	}
	if err := d.truncate("large", blobBytes+10); err != nil {
		t.Fatal(err)
	}
	if err := d.AppendFile(t.Context(), "large", []byte("end")); err != nil {
		t.Fatal(err)
	}
	want := append(bytes.Clone(data[:blobBytes+10]), "end"...)
	if got, err := d.ReadFile("large", 0, -1); err != nil || !bytes.Equal(got, want) {
		t.Errorf("after a truncation and an append it has %d bytes, want %d: %v", len(got), len(want), err)
	}
	if _, err := f.ReadAt(make([]byte, 10), 2*blobBytes); !errors.Is(err, errChanged) {
		t.Errorf("read of what was replaced: %v", err)
	}
}
