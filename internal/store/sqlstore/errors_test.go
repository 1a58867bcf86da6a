package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/testing/journaltest"
)

func TestFilePath(t *testing.T) {
	t.Parallel()
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"sqlite:./data/harness.db": filepath.Join(cwd, "data", "harness.db"),
		"sqlite:data/h.db":         filepath.Join(cwd, "data", "h.db"),
		"sqlite://x/h.db":          filepath.Join(cwd, "x", "h.db"),
		"h.db":                     filepath.Join(cwd, "h.db"),
		"./a:b.db":                 filepath.Join(cwd, "a:b.db"),
	} {
		if runtime.GOOS == "windows" && strings.Contains(want[2:], ":") {
			continue
		}
		if got, err := filePath(in); err != nil || got != want {
			t.Errorf("filePath(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"":                           "names no file",
		"sqlite:":                    "names no file",
		"sqlite::memory:":            "names no file",
		"postgres://u:secret@host/x": `"postgres:" is not supported: use sqlite:PATH`,
		"sqlite:x.db?mode=ro":        "parameters after ? are not supported",
	} {
		_, err := filePath(in)
		wantText(t, in, err, "store.url", want)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error repeats a password: %v", err)
		}
	}
}

func openFails(t *testing.T, what, path string, texts ...string) {
	t.Helper()
	s, err := Open(context.Background(), path, Options{})
	if err == nil {
		s.Close()
	}
	wantText(t, what, err, append(texts, filepath.Base(path))...)
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	openFails(t, "a directory", dir, "is a directory", "name a file in store.url")

	text := filepath.Join(dir, "notes.txt")
	content := bytes.Repeat([]byte("these are notes\n"), 1000)
	if err := os.WriteFile(text, content, 0o600); err != nil {
		t.Fatal(err)
	}
	openFails(t, "a text file", text, "not a SQLite database", "move it away")
	if after, err := os.ReadFile(text); err != nil || !bytes.Equal(after, content) {
		t.Errorf("the text file was changed: %v", err)
	}
	openFails(t, "a file as directory", filepath.Join(text, "h.db"), "check the permissions")

	foreign := filepath.Join(dir, "foreign.db")
	c, err := connect(t.Context(), dsn(foreign, nil))
	if err != nil {
		t.Fatal(err)
	}
	c.script("CREATE TABLE theirs (x)")
	if err := errors.Join(c.err, c.close()); err != nil {
		t.Fatal(err)
	}
	openFails(t, "another program's database", foreign, "database of another program", "store.url")

	if _, err := Open(t.Context(), filepath.Join(dir, "x.db"), Options{Sync: "off"}); err == nil ||
		!strings.Contains(err.Error(), `store.sync is "off"`) {
		t.Errorf("unknown sync: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "x.db")); !os.IsNotExist(err) {
		t.Errorf("a bad option has made a file: %v", err)
	}
}

// A file of a later release is refused and not changed.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	put(t, s, "run_a", journaltest.Start("run_a"))
	set := func(s *Store, version int) {
		if err := s.write(context.Background(), 0, func(c *conn) {
			c.exec("UPDATE schema_version SET version = ?", version)
		}); err != nil {
			t.Fatal(err)
		}
	}
	current := count(t, s, "SELECT version FROM schema_version")
	set(s, 99)
	openFails(t, "newer schema", s.path, fmt.Sprintf("version 99, this harness knows %d", current), "use a newer harness")
	if v := count(t, s, "SELECT version FROM schema_version"); v != 99 {
		t.Errorf("the version was changed to %d", v)
	}
	set(s, current)
	again := reopenAt(t, s.path, Options{})
	if records, err := again.Read(t.Context(), "run_a"); err != nil || len(records) != 1 {
		t.Errorf("after the refusal: %d records, %v", len(records), err)
	}
}

// The error for a damaged file says that the file is damaged, and names a remedy.
func TestCorruptFile(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	for i := range 200 {
		run := fmt.Sprint("run_", i)
		put(t, s, run, bigStart(run, run), journaltest.Log(run), journaltest.End())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	for page := 4096; page < len(file); page += 2 * 4096 {
		copy(file[page:], bytes.Repeat([]byte{0x5a}, 4096))
	}
	if err := os.WriteFile(s.path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	bad, err := Open(t.Context(), s.path, Options{})
	if err == nil {
		defer bad.Close()
		_, _, err = bad.Runs(t.Context(), journal.Filter{})
	}
	wantText(t, "damaged file", err, "it is damaged", "restore it from a backup")
}

// A value that is not JSON is refused. The error names the number of the record, and the journal stays readable.
func TestInvalidValue(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	w, err := s.Create(t.Context(), "run_a")
	if err != nil {
		t.Fatal(err)
	}
	w.Append(journaltest.Start("run_a"))
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Append(journal.Record{Answer: &journal.Answer{N: 1, Value: []byte(`{"a":`)}})
	wantText(t, "commit", w.Commit(t.Context()), `journal of "run_a"`, "record 2 (answer)")
	wantText(t, "close", w.Close(t.Context()), "record 2 (answer)")
	if records, err := s.Read(t.Context(), "run_a"); err != nil || len(records) != 1 {
		t.Errorf("after the refusal: %d records, %v, want 1", len(records), err)
	}
}

// The test limits the number of SQLite's pages, which gives the same error as a full disk (SQLITE_FULL). Runs fail with an error
// that names the cause, stored records stay intact, and new runs are stored once there is room again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := setup(t, Options{})
	put(t, s, "before", bigStart("before", "x"), journaltest.End())
	pragma := func(text string) {
		t.Helper()
		if err := s.write(t.Context(), 0, func(c *conn) {
			var n int64
			c.row(text, nil, &n)
		}); err != nil {
			t.Fatal(err)
		}
	}
	pages := count(t, s, "SELECT page_count FROM pragma_page_count()")
	pragma(fmt.Sprintf("PRAGMA max_page_count = %d", pages+30))

	w, err := s.Create(t.Context(), "cut off")
	if err != nil {
		t.Fatal(err)
	}
	w.Append(journaltest.Start("cut off"))
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	stored := 1
	for n := 1; ; n++ {
		w.Append(bigAnswer(n, fmt.Sprint(n)))
		if err = w.Commit(t.Context()); err != nil {
			break
		}
		if stored++; stored > 100 {
			t.Fatal("the disk never became full")
		}
	}
	wantText(t, "commit", err, "write journal of \"cut off\"", s.path, "the disk is full: free some space")
	w.Append(journaltest.End())
	if again := w.Commit(t.Context()); again == nil || again.Error() != err.Error() {
		t.Errorf("a commit after the failure: %v, want the same error", again)
	}
	if err := w.Close(t.Context()); err == nil {
		t.Error("close did not report the failure")
	}

	for run, want := range map[string]int{"before": 2, "cut off": stored} {
		if got, err := s.Read(t.Context(), run); err != nil || len(got) != want {
			t.Errorf("%s: %d records, %v, want %d", run, len(got), err, want)
		}
	}
	checkIntegrity(t, s)
	pragma("PRAGMA max_page_count = 1000000")
	put(t, s, "after", bigStart("after", "y"), journaltest.End())
	w, records, err := s.Resume(t.Context(), "cut off")
	if err != nil || len(records) != stored {
		t.Fatalf("resume of the run that was cut off: %d records, %v", len(records), err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Several processes create and open one new store at the same time.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "harness.db")
	exe := child.Executable(t)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), openVariable+"="+path, runVariable+"="+fmt.Sprint("run_", i))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("process %d: %v\n%s", i, err, out)
			}
		})
	}
	wg.Wait()
	s := reopenAt(t, path, Options{})
	if n := count(t, s, "SELECT count(*) FROM runs"); n != 6 {
		t.Errorf("%d runs, want 6", n)
	}
	checkIntegrity(t, s)
}

const (
	openVariable = "HARNESS_STORE_TEST_OPEN" // makes the test binary a process that stores one run
	runVariable  = "HARNESS_STORE_TEST_RUN"
)

func runOpener(path string) int {
	s, err := Open(context.Background(), path, Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	run := os.Getenv(runVariable)
	w, err := s.Create(context.Background(), run)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for _, r := range []journal.Record{journaltest.Start(run), journaltest.End()} {
		w.Append(r)
	}
	if err := w.Close(context.Background()); err != nil {
		fmt.Println(err)
		return 1
	}
	if err := s.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// The error of a connection pool that does not support startup parameters says what to change.
func TestPoolInBetween(t *testing.T) {
	t.Parallel()
	wantText(t, "PgBouncer", explain(&pgconn.PgError{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: jit"}), "PgBouncer", "store.url")
}
