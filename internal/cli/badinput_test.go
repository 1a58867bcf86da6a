package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/cli"
)

// badInput is a table row: a mistake, the command, and the expected error.
type badInput struct {
	name    string
	prepare func(f *fixture)
	args    []string
	code    int
	want    []string // texts in standard error: the wrong thing and the remedy
}

// TestBadInput checks what a command does on mistakes of its user and failures of its environment: the exit code, an error that names the thing and the remedy,
// an empty standard output or one value with --json, and unchanged files.
func TestBadInput(t *testing.T) {
	t.Parallel()
	config := func(text string) func(*fixture) { return func(f *fixture) { f.write("harness.yaml", text) } }
	server := func(entry string) func(*fixture) { return config("mcpServers:\n  x: " + entry + "\n") }
	for _, c := range []badInput{
		// The command line.
		{"unknown command", nil, []string{"fly"}, 2, []string{"fly", "harness --help"}},
		{"unknown flag", nil, []string{"exec", "--fly"}, 2, []string{"--fly", "harness exec --help"}},
		{"no subcommand", nil, []string{"runs"}, 2, []string{`"list"`, "harness runs --help"}},
		{"argument is missing", nil, []string{"tools", "show"}, 2, []string{"<name>", "harness tools show --help"}},
		{"one argument too many", nil, []string{"version", "now"}, 2, []string{"now"}},
		{"no program", nil, []string{"exec"}, 2, []string{"no program", "-e CODE"}},
		{"two programs", nil, []string{"exec", "a.js", "-e", "1"}, 2, []string{"not both"}},
		{"unknown tier", nil, []string{"exec", "-e", "1", "--sandbox", "moon"}, 2, []string{`"moon"`, "wasm"}},
		{"timeout is no duration", nil, []string{"exec", "-e", "1", "--timeout", "soon"}, 2, []string{"--timeout", "soon"}},
		{"timeout is negative", nil, []string{"exec", "-e", "1", "--timeout=-1s"}, 2, []string{"--timeout", "30s"}},
		{"record and replay", nil, []string{"exec", "-e", "1", "--record", "a", "--replay", "b"}, 2, []string{"--record and --replay"}},
		{"too few model tokens", nil, []string{"exec", "-e", "1", "--for-model=0"}, 2, []string{"--for-model", `"0"`}},
		{"limit", nil, []string{"runs", "list", "--limit", "0"}, 2, []string{"--limit 0", "from 1"}},
		{"cursor", nil, []string{"runs", "list", "--cursor", "x"}, 2, []string{"--cursor", `"x"`}},
		{"status", nil, []string{"runs", "list", "--status", "odd"}, 2, []string{"--status", "odd", "running"}},
		{"log level", nil, []string{"config", "show", "--log-level", "loud"}, 2, []string{"log.level", "loud", "debug"}},
		// Files.
		{"program is missing", nil, []string{"exec", "none.js"}, 2, []string{"none.js", "no such file", "-e CODE"}},
		{"program is a directory", nil, []string{"exec", "."}, 2, []string{"is a directory"}},
		{"recording is missing", nil, []string{"exec", "--replay", "none.json"}, 2, []string{"none.json", "--record"}},
		{"recording is none", func(f *fixture) { f.write("a.json", "{}") }, []string{"exec", "--replay", "a.json"}, 2, []string{"a.json", "--record"}},
		{"recording cannot be written", nil, []string{"exec", "-e", "1", "--record", "no/a.json"}, 2, []string{"a.json", "directory"}},
		{"configuration is missing", nil, []string{"exec", "-e", "1", "--config", "none.yaml"}, 2, []string{"none.yaml", "harness init"}},
		{"init twice", config(""), []string{"init"}, 2, []string{"harness.yaml", "exists"}},
		{"init nowhere", nil, []string{"init", "no/where"}, 2, []string{"where", "make the directory"}},
		// The configuration.
		{"bad YAML", config("sandbox: {timeout: 3s\nstore: ["), []string{"exec", "-e", "1"}, 2, []string{"harness.yaml:"}},
		{"unknown key", config("sandbox:\n  timeuot: 3s\n"), []string{"exec", "-e", "1"}, 2, []string{"harness.yaml:2:3", "sandbox.timeuot", "timeout"}},
		{"bad value", config("sandbox:\n  timeout: soon\n"), []string{"doctor"}, 2, []string{"harness.yaml:2:12", "sandbox.timeout", "soon"}},
		{"prelude is missing", config("sandbox:\n  prelude: [none.js]\n"), []string{"exec", "-e", "1"}, 2, []string{"sandbox.prelude", "none.js"}},
		{
			"environment", func(f *fixture) { f.environ = append(f.environ, "HARNESS_SANDBOX_TIMEOUT=soon") },
			[]string{"exec", "-e", "1"},
			2,
			[]string{"HARNESS_SANDBOX_TIMEOUT", "soon"},
		},
		{"remove an unknown server", server("{command: y}"), []string{"servers", "remove", "z"}, 2, []string{`"z"`, "x"}},
		{"test an unknown server", server("{command: y}"), []string{"servers", "test", "z"}, 2, []string{`"z"`, "harness servers list"}},
		{"add a server to bad YAML", config("a: ["), []string{"servers", "add", "z", "--", "y"}, 2, []string{"harness.yaml"}},
		// Servers and tools.
		{"command is missing", server("{command: no-such-command}"), []string{"servers", "test"}, 3, []string{"no-such-command", "not found", "install"}},
		{"variable is not set", server("{command: y, env: {A: '${NOT_SET}'}}"), []string{"servers", "test"}, 3, []string{"NOT_SET"}},
		{"port of nothing", server("{url: 'http://127.0.0.1:1/mcp'}"), []string{"servers", "test"}, 3, []string{"127.0.0.1:1", "refused"}},
		{
			"tool of a server that is down", server("{url: 'http://127.0.0.1:1/mcp'}"),
			[]string{"tools", "show", "x__y"},
			3,
			[]string{"x__y", "refused", "harness servers test x"},
		},
		{
			"call of a server that is down", server("{url: 'http://127.0.0.1:1/mcp'}"),
			[]string{"tools", "call", "x__y"},
			3,
			[]string{"x__y", "refused", "harness servers test x"},
		},
		{"types of an unknown server", nil, []string{"tools", "types", "z"}, 2, []string{`"z"`, "harness servers list"}},
		{
			"unknown tool", func(f *fixture) { f.addDemo("database") },
			[]string{"tools", "show", "database__qery"},
			2,
			[]string{"database__qery", "did you mean database__query", "harness tools list"},
		},
		{
			"call of an unknown tool", func(f *fixture) { f.addDemo("database") },
			[]string{"tools", "call", "database__qery"},
			2,
			[]string{"database__qery", "did you mean database__query"},
		},
		{"arguments are no JSON", nil, []string{"tools", "call", "a__b", "{query"}, 2, []string{"{query", `'{"name": value`}},
		{"arguments are no object", nil, []string{"tools", "call", "a__b", "[1]"}, 2, []string{"[1]", `'{"name": value`}},
		{"arguments are null", nil, []string{"tools", "call", "a__b", "null"}, 2, []string{"null", `'{"name": value`}},
		{
			"wrong arguments", func(f *fixture) { f.addDemo("database") },
			[]string{"tools", "call", "database__query", `{"qery": 1}`},
			1,
			[]string{`"query"`, `did you mean "query"`},
		},
		{
			"tool's own error", func(f *fixture) { f.addDemo("database") },
			[]string{"tools", "call", "database__query", `{"query": "SELECT x"}`},
			1,
			[]string{"x"},
		},
		{
			"unknown tool in a program", func(f *fixture) { f.addDemo("database") },
			[]string{"exec", "-e", "return await tools.database.qery()"},
			1,
			[]string{"qery", "database__query", "program.js:1:"},
		},
		// Skills and runs.
		{"unknown skill", nil, []string{"skills", "show", "none"}, 2, []string{`"none"`, "harness skills list"}},
		{"skill does not exist", nil, []string{"exec", "-e", "import x from '/skills/none.js'; return x"}, 1, []string{"/skills/none.js", "program.js:1:"}},
		{"unknown run", nil, []string{"runs", "show", "run_none"}, 2, []string{"run_none", "harness runs list"}},
		{"journal of an unknown run", nil, []string{"runs", "journal", "run_none"}, 2, []string{"run_none", "harness runs list"}},
		{"resume an unknown run", nil, []string{"runs", "resume", "run_none"}, 2, []string{"run_none", "harness runs list"}},
		{
			"resume a run that ended", func(f *fixture) { f.run("exec", "-e", "1").want(0) },
			[]string{"runs", "resume", "run_"},
			2,
			[]string{"has ended (succeeded)", "harness runs show"},
		},
		{
			"ambiguous run", func(f *fixture) { f.run("exec", "-e", "1").want(0); f.run("exec", "-e", "2").want(0) },
			[]string{"runs", "show", "run_"},
			2,
			[]string{"several runs", "run_"},
		},
		// The disk.
		{
			"store is no database", func(f *fixture) {
				f.write("h.db", strings.Repeat("not a database ", 100))
				config("store: {url: 'sqlite:h.db'}")(f)
			},
			[]string{"exec", "-e", "1"},
			3,
			[]string{"h.db", "store.url"},
		},
		{
			"store's directory is a file", func(f *fixture) { f.write("file", ""); config("store: {url: 'sqlite:file/h.db'}")(f) },
			[]string{"runs", "list"},
			3,
			[]string{"file"},
		},
		{
			"skills directory is a file", func(f *fixture) { f.write("file", ""); config("skills: {dir: file}")(f) },
			[]string{"exec", "-e", "1"},
			3,
			[]string{"set skills.dir", "file"},
		},
		{
			"cache directory is a file", func(f *fixture) {
				f.environ = append([]string{"HARNESS_CACHE_DIR=" + f.write("file", "")}, f.environ...)
			},
			[]string{"exec", "-e", "1"},
			3,
			[]string{"cache", "HARNESS_CACHE_DIR"},
		},
		{
			"quota of files", config("workspace: {maxFiles: 2}"),
			[]string{"exec", "-e", "for (let i = 0; i < 9; i++) await fs.writeFile('/workspace/' + i, 'x')"},
			1,
			[]string{"ENOSPC", "workspace.maxFiles"},
		},
		{
			"quota of bytes", config("skills: {maxBytes: 1KiB}"),
			[]string{"exec", "-e", "await fs.writeFile('/skills/big.js', '/'.repeat(5000))"},
			1,
			[]string{"ENOSPC", "skills.maxBytes"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			if c.prepare != nil {
				c.prepare(f)
			}
			c.check(t, f)
		})
	}
}

// check runs the command of a row twice, plain and with --json, and compares the files before and after.
func (c badInput) check(t *testing.T, f *fixture) {
	t.Helper()
	before := f.snapshot()
	r := f.run(c.args...).want(c.code)
	if r.stdout != "" && c.args[0] != "doctor" && c.args[0] != "servers" { // doctor and servers print a table that includes the failure
		t.Errorf("standard output is %q", r.stdout)
	}
	for _, want := range c.want {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("standard error does not name %q:\n%s", want, r.stderr)
		}
	}
	var value json.RawMessage
	f.run(append([]string{"--json"}, c.args...)...).want(c.code).value(&value)
	after := f.snapshot()
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s was changed from\n%.200s\nto\n%.200s", name, text, after[name])
		}
	}
}

// snapshot returns the content of every file of the user except the store, which grows with every run.
func (f *fixture) snapshot() map[string]string {
	f.t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(f.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), "harness.db") {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return files
}

// TestBadDirectories checks errors about directories with wrong permissions. It needs the modes and owners of Unix, and a user other than root for read-only
// directories.
func TestBadDirectories(t *testing.T) {
	t.Parallel()
	if os.PathSeparator != '/' {
		t.Skip("this system has no modes of directories: run this test on Linux or macOS")
	}
	f := setup(t)
	cache := filepath.Join(f.dir, "cache")
	if err := os.Mkdir(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(cache, 0o777); err != nil { // Chmod, because the umask limits the mode of Mkdir
		t.Fatal(err)
	}
	f.environ = append([]string{"HARNESS_CACHE_DIR=" + cache}, f.environ...)
	badInput{args: []string{"exec", "-e", "1"}, code: 3, want: []string{cache, "chmod 700", "HARNESS_CACHE_DIR"}}.check(t, f)
	// Without a home directory, the caches are in a temporary directory, which the command removes.
	cmd := f.process("exec", "-e", "return 5")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/proc/none", "TMPDIR=" + t.TempDir(), "HARNESS_STORE_URL=sqlite:" + filepath.Join(f.dir, "h.db")}
	cmd.Env = append(cmd.Env, "HARNESS_WORKSPACE_DIR="+filepath.Join(f.dir, "w"), "HARNESS_SKILLS_DIR="+filepath.Join(f.dir, "s"))
	if runtime.GOOS == "linux" {
		if out, err := cmd.Output(); err != nil || string(out) != "5\n" {
			t.Errorf("without a home: %s, %v", out, err)
		}
		if left, err := os.ReadDir(strings.TrimPrefix(cmd.Env[2], "TMPDIR=")); err != nil || len(left) > 0 {
			t.Errorf("%v is left, %v", left, err)
		}
	}
	if os.Getuid() == 0 {
		t.Log("modes do not bind root: read-only directories are not tested")
		return
	}
	f = setup(t)
	f.write("harness.yaml", "store: {url: 'sqlite:data/h.db'}\n")
	f.write("data/keep", "")
	if err := os.Chmod(filepath.Join(f.dir, "data"), 0o500); err != nil {
		t.Fatal(err)
	}
	badInput{args: []string{"exec", "-e", "1"}, code: 3, want: []string{"h.db", "permission"}}.check(t, f)
}

// TestDamagedStore overwrites all of a store but its header. The error says that the store is damaged, and the file does not change.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "store: {url: 'sqlite:h.db'}\n")
	for range 3 {
		f.run("exec", "-e", "return 'x'.repeat(10000)").want(0)
	}
	text := []byte(f.read("h.db"))
	for i := 100; i < len(text); i++ { // all but the header
		text[i] = 0x5a
	}
	f.write("h.db", string(text))
	for _, name := range []string{"h.db-wal", "h.db-shm"} {
		_ = os.Remove(filepath.Join(f.dir, name))
	}
	badInput{args: []string{"runs", "list"}, code: 3, want: []string{"h.db", "damaged"}}.check(t, f)
}

// TestUnreadableSkill checks that an error in a skill names the file and the line.
func TestUnreadableSkill(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.run("exec", "-e", "await fs.writeFile('/skills/bad.js', 'exports.a = 1\\nexports.b = (')").want(0)
	badInput{args: []string{"exec", "-e", "import {a} from '/skills/bad.js'; return a"}, code: 1, want: []string{"/skills/bad.js:2:", "exports.b = ("}}.check(t, f)
	badInput{args: []string{"exec", "-e", "return require('/skills/bad.js').a"}, code: 1, want: []string{"/skills/bad.js"}}.check(t, f)
}

// TestServerThatAnswersNonsense checks the error about a server that closes every connection.
func TestServerThatAnswersNonsense(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	f := setup(t)
	f.run("servers", "add", "x", "http://"+listener.Addr().String()+"/mcp").want(0)
	badInput{args: []string{"servers", "test"}, code: 3, want: []string{"x", listener.Addr().String()}}.check(t, f)
}

// TestLostOutput checks that a command fails if its output cannot be written, because the reader of the output then has nothing.
func TestLostOutput(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"version", "--json"}, {"exec", "-e", "return 1"}} {
		f := setup(t)
		var stderr bytes.Buffer
		code := cli.Main(t.Context(), cli.World{
			Args: args, Environ: f.environ, Dir: f.dir, Executable: self(t), Stdin: strings.NewReader(""), Stdout: fullDisk{}, Stderr: &stderr, Now: time.Now,
		})
		if code != 1 || !strings.Contains(stderr.String(), "write the result: no space left") {
			t.Errorf("%v exits with %d: %s", args, code, &stderr)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }
