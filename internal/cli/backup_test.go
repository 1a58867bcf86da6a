package cli_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/store/sqlstore"
)

// besides returns another user with an empty directory.
func (f *fixture) besides() *fixture {
	f.t.Helper()
	other := setup(f.t)
	return other
}

// TestBackupWhileServing makes backups while a server executes programs that write. Each restored backup is whole: its runs have journals and files, its audit
// log verifies, and a server starts on it.
func TestBackupWhileServing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "server: {rateLimit: {enabled: false}}\n")
	server := f.serve()
	token := strings.TrimSpace(f.run("token").want(0).stdout)
	stop := make(chan struct{})
	var writers, begun sync.WaitGroup // begun: each writer has made some runs
	for w := range 3 {
		begun.Add(1)
		enough := sync.OnceFunc(begun.Done)
		writers.Go(func() {
			defer enough()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				body := fmt.Sprintf(`{"userId":"user%d","sessionId":"s%d","code":"await fs.writeFile('/workspace/f%d.txt', '%d'.repeat(5000)); return (await fs.readFile('/workspace/f%d.txt')).length"}`,
					w, w, n%20, n%10, n%20)
				if code, text := server.do("POST", "/v1/runs", body, "Authorization", "Bearer "+token); code != 200 {
					t.Errorf("run: %d %s", code, text)
					return
				}
				if n == 3 {
					enough()
				}
			}
		})
	}
	begun.Wait()
	for i := range 3 {
		f.run("backup", fmt.Sprintf("backup%d.tar.gz", i)).want(0)
	}
	close(stop)
	writers.Wait()
	if code := server.stop(); code != 0 {
		t.Fatalf("serve ended with %d: %s", code, server.log)
	}
	last := 0
	for i := range 3 {
		other := f.besides()
		other.run("restore", filepath.Join(f.dir, fmt.Sprintf("backup%d.tar.gz", i))).want(0)
		var list struct {
			Runs []struct{ ID, Status string }
		}
		other.run("runs", "list", "--json", "--limit", "100").want(0).value(&list)
		if len(list.Runs) < 10 || len(list.Runs) < last {
			t.Errorf("backup %d has %d runs, the one before %d", i, len(list.Runs), last)
		}
		last = len(list.Runs)
		var run string
		for _, r := range list.Runs {
			if r.Status == "succeeded" {
				run = r.ID
			}
		}
		other.run("runs", "replay", run).want(0)
		for w := range 3 {
			names, err := filepath.Glob(filepath.Join(other.dir, "data", "workspace", fmt.Sprint("user", w), fmt.Sprint("s", w), "*"))
			if err != nil || len(names) == 0 {
				t.Errorf("no files of user %d: %v", w, err)
			}
			for _, name := range names {
				text, err := os.ReadFile(name)
				if err != nil || len(text) != 5000 || strings.Trim(string(text), string(text[:1])) != "" {
					t.Errorf("%s is torn: %d bytes, %v", name, len(text), err)
				}
			}
		}
		other.run("audit", "verify").want(0)
		if i == 2 {
			restored := other.serve()
			if code, text := restored.do("GET", "/v1/runs/"+run, "", "Authorization", "Bearer "+strings.TrimSpace(other.run("token").want(0).stdout)); code != 200 {
				t.Errorf("a run of the backup: %d %s", code, text)
			}
			restored.stop()
		}
	}
}

// TestRestoreRefuses checks that restore replaces nothing without --force, never touches a store in use, and with --force restores exactly the backup.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.run("init").want(0)
	f.run("exec", "-e", "await fs.writeFile('/skills/one.js', 'exports.one = 1'); return 1").want(0)
	f.run("backup", "b.tar.gz").want(0)
	if r := f.run("backup", "b.tar.gz").want(2); !strings.Contains(r.stderr, "--force") {
		t.Errorf("a second backup: %s", r.stderr)
	}
	if r := f.run("restore", "b.tar.gz").want(2); !strings.Contains(r.stderr, "harness.db") || !strings.Contains(r.stderr, "--force") {
		t.Errorf("over what is there: %s", r.stderr)
	}
	config := f.read("harness.yaml")
	f.write("harness.yaml", "sandbox: {timeout: 7s}\n")
	if r := f.run("restore", "b.tar.gz").want(2); !strings.Contains(r.stderr, "differs") || !strings.Contains(f.read("harness.yaml"), "7s") {
		t.Errorf("over another configuration: %s", r.stderr)
	}
	f.run("exec", "-e", "await fs.writeFile('/skills/two.js', 'exports.two = 2'); return 2").want(0)
	server := f.serve()
	if r := f.run("restore", "--force", "b.tar.gz").want(3); !strings.Contains(r.stderr, fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("while a server runs: %s", r.stderr)
	}
	if !strings.Contains(f.read("harness.yaml"), "7s") {
		t.Error("the configuration was changed although the rest was refused")
	}
	server.stop()

	broken := []byte(f.read("b.tar.gz"))
	broken[len(broken)/2] ^= 1
	f.write("broken.tar.gz", string(broken))
	if r := f.run("restore", "--force", "broken.tar.gz").want(1); !strings.Contains(r.stderr, "damaged") || !strings.Contains(r.stderr, "nothing was changed") {
		t.Errorf("a damaged one: %s", r.stderr)
	}
	if r := f.run("skills", "list").want(0); !strings.Contains(r.stdout, "two") {
		t.Errorf("a damaged backup changed something: %s", r.stdout)
	}
	empty := setup(t)
	empty.write("broken.tar.gz", string(broken))
	before, err := os.ReadDir(empty.dir)
	if err != nil {
		t.Fatal(err)
	}
	empty.run("restore", "broken.tar.gz").want(1)
	if after, err := os.ReadDir(empty.dir); err != nil || len(after) != len(before) {
		t.Errorf("a damaged backup leaves %v, %v", after, err)
	}
	if r := f.run("restore", "harness.yaml").want(2); !strings.Contains(r.stderr, "no backup") {
		t.Errorf("no backup: %s", r.stderr)
	}
	f.run("restore", "absent.tar.gz").want(2)

	var result struct{ Notes []string }
	f.run("restore", "--force", "--json", "b.tar.gz").want(0).value(&result)
	if !strings.Contains(strings.Join(result.Notes, "\n"), "before-restore-") {
		t.Errorf("notes %q", result.Notes)
	}
	if r := f.run("skills", "list").want(0); strings.Contains(r.stdout, "two") || !strings.Contains(r.stdout, "one") {
		t.Errorf("after all: %s", r.stdout)
	}
	if f.read("harness.yaml") != config {
		t.Error("the configuration is not that of the backup")
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), "restore") {
			t.Errorf("left %s", e.Name())
		}
	}
}

// TestBackupKeys checks that a restored installation needs the key to read personal data, and that a backup contains the key and the secrets of servers only
// with --with-keys.
func TestBackupKeys(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "")
	f.write(".env", "REGION=eu\n")
	f.run("servers", "add", "crm", "http://127.0.0.1:1/mcp", "--header", "Authorization: Bearer sk-live-0123456789abcdef").want(0)
	f.write("mail.txt", "Write to ann@example.com")
	f.run("exec", "--session", "s", "--input", "mail.txt", "-e", "await fs.writeFile('/workspace/out.txt', input); return 1").want(0)
	if text := f.read("data/workspace/local/s/out.txt"); strings.Contains(text, "ann@") {
		t.Fatalf("the workspace has %s", text)
	}
	r := f.run("backup", "plain.tar.gz").want(0)
	if !strings.Contains(r.stderr, "pii.key") || !strings.Contains(r.stderr, "crm.") {
		t.Errorf("what is left out: %s", r.stderr)
	}
	if r := f.run("backup", "--with-keys", "all.tar.gz").want(0); !strings.Contains(r.stderr, "as safe as they are") {
		t.Errorf("with keys: %s", r.stderr)
	}
	if info, err := os.Stat(filepath.Join(f.dir, "all.tar.gz")); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}

	plain, all := f.besides(), f.besides()
	if r := plain.run("restore", filepath.Join(f.dir, "plain.tar.gz")).want(0); !strings.Contains(r.stderr, "key of personal data") {
		t.Errorf("without its key: %s", r.stderr)
	}
	if r := plain.run("files", "get", "s", "out.txt", "-"); r.code == 0 || strings.Contains(r.stdout, "ann@") || !strings.Contains(r.stderr, "harness doctor says why") {
		t.Errorf("read without a key: exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
	plain.run("exec", "--session", "later", "--input", filepath.Join(f.dir, "mail.txt"), "-e", "await fs.writeFile('/workspace/out.txt', input); return 1").want(0) // with a new key
	if r := plain.run("doctor"); !strings.Contains(r.stdout, "stored values were sealed with key ") || !strings.Contains(r.stdout, "pii.key") {
		t.Errorf("doctor without the key: %s", r.stdout)
	}
	if r := plain.run("files", "get", "later", "out.txt", "-").want(0); r.stdout != "Write to ann@example.com" {
		t.Errorf("restored with the new key: %q", r.stdout)
	}
	if r := all.run("restore", filepath.Join(f.dir, "all.tar.gz")).want(0); strings.Contains(r.stderr, "key of personal data") {
		t.Errorf("with its key: %s", r.stderr)
	}
	if r := all.run("files", "get", "s", "out.txt", "-").want(0); r.stdout != "Write to ann@example.com" {
		t.Errorf("restored %q", r.stdout)
	}
	if text := all.read(".env"); text != "REGION=eu\n" {
		t.Errorf(".env %q", text)
	}
	var secrets map[string]struct{ Value, For string }
	if err := json.Unmarshal([]byte(all.read(".config/harness/secrets.json")), &secrets); err != nil || len(secrets) != 1 {
		t.Errorf("secrets %v, %v", secrets, err)
	}
	for _, value := range secrets {
		if !strings.Contains(value.Value, "sk-live-0123456789abcdef") || filepath.Base(value.For) != "harness.yaml" {
			t.Errorf("secret %+v", value)
		}
	}
}

// TestBackupThroughPipes checks that a backup can be written to standard output and restored from standard input.
func TestBackupThroughPipes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.run("exec", "--session", "s", "-e", "return 1").want(0)
	archive := f.run("backup", "-").want(0).stdout
	f.run("backup", "--json", "-").want(2)
	other := f.besides()
	if r := other.runIn(t.Context(), archive, "restore", "-").want(0); !strings.Contains(r.stdout, "restored") {
		t.Errorf("stdout %s", r.stdout)
	}
	if r := other.run("sessions", "list").want(0); !strings.Contains(r.stdout, "s ") {
		t.Errorf("sessions %s", r.stdout)
	}
	other.runIn(t.Context(), archive[:len(archive)/2], "restore", "--force", "-").want(1)

	var result struct {
		Manifest struct{ Schema int }
	}
	f.besides().runIn(t.Context(), archive, "restore", "--json", "-").want(0).value(&result)
	if result.Manifest.Schema != sqlstore.Schema() {
		t.Errorf("schema %d", result.Manifest.Schema)
	}
}

// TestInterruptedBackup checks that an interrupted backup or restore leaves no files.
func TestInterruptedBackup(t *testing.T) {
	t.Parallel()
	f, other := setup(t), setup(t)
	f.write("harness.yaml", "sandbox: {timeout: 7s}\n")
	f.run("exec", "--session", "s", "-e", "await fs.writeFile('/workspace/f.txt', 'x'); return 1").want(0)
	f.run("backup", "b.tar.gz").want(0)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cli.Signal{Signal: os.Interrupt})
	f.runIn(ctx, "", "backup", "c.tar.gz").want(130)
	other.runIn(ctx, "", "restore", filepath.Join(f.dir, "b.tar.gz")).want(130)
	for _, dir := range []string{f.dir, other.dir} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			name := d.Name()
			if dir == other.dir && !d.IsDir() && !strings.HasSuffix(name, ".queue-lock") || strings.Contains(name, "c.tar.gz") || strings.Contains(name, ".harness-") || strings.Contains(name, "restore") {
				t.Errorf("left %s", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestUpgrade checks that the first command on a store of an older release upgrades the store, prints the path of the copy of the old store, and finds every
// run. A backup of the old store can be restored, too.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	packed, err := os.Open(filepath.Join("..", "store", "sqlstore", "testdata", "version3.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	old, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	f, other := setup(t), setup(t)
	f.write("harness.yaml", "journal: {retention: 0}\n")
	f.write("data/harness.db", string(old))
	f.run("backup", "old.tar.gz").want(0)
	check := func(f *fixture) {
		t.Helper()
		r := f.run("runs", "list").want(0)
		copies, _ := filepath.Glob(filepath.Join(f.dir, "data", "harness.db.v3-*.bak"))
		if len(copies) != 1 || !strings.Contains(r.stderr, fmt.Sprintf("from version 3 to %d", sqlstore.Schema())) || !strings.Contains(r.stderr, copies[0]) {
			t.Errorf("copies %v, stderr %s", copies, r.stderr)
		}
		if strings.Count(r.stdout, "run_") != 2 {
			t.Errorf("runs %s", r.stdout)
		}
		if r := f.run("runs", "list").want(0); r.stderr != "" {
			t.Errorf("once more: %s", r.stderr)
		}
	}
	check(f)
	if r := other.run("restore", filepath.Join(f.dir, "old.tar.gz")).want(0); !strings.Contains(r.stderr, "the store has version 3") {
		t.Errorf("stderr %s", r.stderr)
	}
	check(other)
}
