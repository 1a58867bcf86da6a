//go:build linux || darwin

package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/testing/fake"
)

// commandSocket returns the path of the socket on which harness serve accepts commands.
func (f *fixture) commandSocket() string { return filepath.Join(f.dir, "data", "serve", "socket") }

// journalOf calls do and returns the journal of the run that do has made, with variable parts masked. It returns nil if do has made no run.
func (f *fixture) journalOf(do func()) []string {
	f.t.Helper()
	var before, after struct{ Runs []struct{ ID string } }
	f.run("runs", "list", "--json", "--limit", "1").want(0).value(&before)
	do()
	f.run("runs", "list", "--json", "--limit", "1").want(0).value(&after)
	if len(after.Runs) == 0 || len(before.Runs) > 0 && before.Runs[0].ID == after.Runs[0].ID {
		return nil
	}
	text := f.run("runs", "journal", after.Runs[0].ID, "--json").want(0).stdout
	return strings.Split(varying.ReplaceAllString(text, "…"), "\n")
}

// varying matches texts that differ between two executions of the same command.
var varying = regexp.MustCompile(`(?:run|sess)_[0-9a-z]+|"(?:seed|time|now|durationMs|durationUs|at|key|began|ended|memory|computed)":(?:"[^"]*"|[0-9.e+-]+)|\d{4}-\d\d-\d\d[T ][0-9:.]+Z?|[a-z]+_[0-9a-f]{16,}`)

// TestServedCommands checks that a command has the same output, exit code and journal in its own process and when a server executes it.
func TestServedCommands(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("database")
	f.write("program.ts", "import { twice } from './lib/twice'\nconsole.log('doubling')\nreturn twice(input.n)")
	f.write("lib/twice.ts", "export const twice = (n: number) => 2 * n")
	f.write("bad.ts", "import { x } from './missing'\nreturn x")
	f.write("in.json", `{"n": 21}`)
	f.write("rows.csv", "total\n1\n2\n")
	f.write("query.sql", "SELECT 7 AS n")
	large := strings.Repeat("0123456789abcdef", 40_000)
	f.serve()
	query := `return await callMCPTool('database__query', {query: 'SELECT 41 AS n'})`
	for _, c := range []struct {
		name, stdin string
		args        []string
	}{
		{"value", "", []string{"exec", "-e", "return 1 + 1"}},
		{"call", "", []string{"exec", "-e", query}},
		{"logs", "", []string{"exec", "-e", "console.log('a'); console.error('b'); return 'x'.repeat(100000)"}},
		{"JSON", "", []string{"exec", "--json", "-e", "console.log('a'); " + query}},
		{"jq", "", []string{"exec", "--jq", ".output[0].n", "-e", query}},
		{"bad jq", "", []string{"exec", "--jq", ".[", "-e", query}},
		{"runtime error", "", []string{"exec", "-e", "let a\nreturn a.b"}},
		{"syntax error", "", []string{"exec", "--json", "-e", "return 1 +"}},
		{"tool error", "", []string{"exec", "-e", "return await callMCPTool('database__query', {query: 'SELEC'})"}},
		{"unknown tool", "", []string{"exec", "-e", "return await callMCPTool('database__quer', {})"}},
		{"file with imports and input", "", []string{"exec", "program.ts", "--input", "in.json"}},
		{"missing import", "", []string{"exec", "bad.ts"}},
		{"missing file", "", []string{"exec", "no.ts"}},
		{"directory", "", []string{"exec", "lib"}},
		{"missing input", "", []string{"exec", "-e", "return input", "--input", "no.json"}},
		{"directory as input", "", []string{"exec", "-e", "return input", "--input", "lib"}},
		{"rows", "", []string{"exec", "-e", "let n = 0; for await (const r of input) n += Number(r.total); return n", "--input", "rows.csv"}},
		{"program on standard input", query, []string{"exec", "-"}},
		{"empty standard input", "", []string{"exec"}},
		{"input on standard input", `{"n": 3}`, []string{"exec", "-e", "return input.n", "--input", "-"}},
		{"large input", `"` + large + `"`, []string{"exec", "-e", "return input", "--input", "-"}},
		{"bad input", `{"n":`, []string{"exec", "-e", "return input.n", "--input", "-"}},
		{"for a model", "", []string{"exec", "--for-model=50", "-e", "console.warn('w'); return 'x '.repeat(1000)"}},
		{"bad flags", "", []string{"exec", "--force", "-e", "1"}},
		{"files are lost", "", []string{"exec", "-e", "await fs.writeFile('/workspace/a.txt', 'x'); return 0"}},
		{"session", "", []string{"exec", "--session", "s", "-e", "await fs.writeFile('/workspace/a.txt', 'x'); return 0"}},
		{"unknown user", "", []string{"exec", "--user", "..", "-e", "return 0"}},
		{"tool", "", []string{"tools", "call", "database__query", "query=@query.sql"}},
		{"tool, whole", "", []string{"tools", "call", "database__query", "--raw", `{"query": "SELECT 1"}`}},
		{"tool on standard input", `{"query": "SELECT 1"}`, []string{"tools", "call", "database__query", "-"}},
		{"unknown tool by name", "", []string{"tools", "call", "database__nothing"}},
		{"missing argument file", "", []string{"tools", "call", "database__query", "@no.json"}},
		{"task without a model", "", []string{"run", "do it"}},
	} {
		var local, served *result
		localJournal := f.journalOf(func() { local = f.runIn(t.Context(), c.stdin, append(c.args, "--local")...) })
		servedJournal := f.journalOf(func() { served = f.runIn(t.Context(), c.stdin, c.args...) })
		same := func(text string) string { return varying.ReplaceAllString(text, "…") }
		if local.code != served.code || same(local.stdout) != same(served.stdout) || same(local.stderr) != same(served.stderr) {
			t.Errorf("%s: local %d\n%.2000s\n%.2000s\nserved %d\n%.2000s\n%.2000s", c.name, local.code, local.stdout, local.stderr, served.code, served.stdout, served.stderr)
		}
		if a, b := strings.Join(localJournal, "\n"), strings.Join(servedJournal, "\n"); a != b {
			t.Errorf("%s: the journals differ: local\n%.3000s\nserved\n%.3000s", c.name, a, b)
		}
	}
}

// TestServedTask checks that a task has the same output, journal and requests to the model in its own process and when a server works it. An interrupt cancels
// it in both cases.
func TestServedTask(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.addDemo("database")
	server := f.modelled(func(r fake.Request) fake.Reply {
		switch {
		case strings.Contains(string(r.Raw), "wait forever"):
			return code("console.log('begun'); await utils.sleep(600000)")
		case r.Last().Role == "tool":
			return fake.Reply{Text: "It is 41.", Usage: fake.Usage{Input: 200, Output: 5}}
		}
		return code("console.log('asking'); return await tools.database.query({query: 'SELECT 41 AS n'})")
	})
	f.serve()
	times := regexp.MustCompile(`\d[\d.]* m?s\b|call_\d+_\d+`) // also the ids that the fake model server generates
	same := func(text string) string { return times.ReplaceAllString(varying.ReplaceAllString(text, "…"), "…") }
	for _, args := range [][]string{{"run", "What is it?"}, {"run", "--json", "--user", "ann", "What is it?"}} {
		for range 2 { // The second task says that it repeats the first one, and no later one does.
			f.run(args...).want(0)
		}
		var local, served *result
		var requests [2][]fake.Request
		before := len(server.Requests())
		localJournal := f.journalOf(func() { local = f.run(append(args[:len(args):len(args)], "--local")...) })
		requests[0] = server.Requests()[before:]
		servedJournal := f.journalOf(func() { served = f.run(args...) })
		requests[1] = server.Requests()[before+len(requests[0]):]
		if local.code != 0 || local.code != served.code || same(local.stdout) != same(served.stdout) || same(local.stderr) != same(served.stderr) {
			t.Errorf("%q: local %d\n%s\n%s\nserved %d\n%s\n%s", args, local.code, local.stdout, local.stderr, served.code, served.stdout, served.stderr)
		}
		if a, b := strings.Join(localJournal, "\n"), strings.Join(servedJournal, "\n"); a != b || a == "" {
			t.Errorf("%q: the journals differ: local\n%.3000s\nserved\n%.3000s", args, a, b)
		}
		var asked [2]string
		for i, all := range requests {
			for _, r := range all {
				asked[i] += same(string(r.Raw)) + "\n"
			}
		}
		if diff := cmp.Diff(asked[0], asked[1]); asked[0] == "" || diff != "" {
			t.Errorf("%q: the model is asked something else: %s", args, diff)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stderr := &lockedBuffer{hit: make(chan struct{}), re: regexp.MustCompile("begun")}
	go func() {
		<-stderr.hit
		cancel(cli.Signal{Signal: syscall.SIGINT})
	}()
	if code := cli.Main(ctx, f.world([]string{"run", "wait forever"}, "", io.Discard, stderr)); code != 130 {
		t.Errorf("interrupted: %d\n%s", code, stderr)
	}
	var tasks struct {
		Tasks []struct{ Status, Task string }
	}
	f.run("tasks", "list", "--json", "--limit", "1").want(0).value(&tasks)
	if len(tasks.Tasks) != 1 || tasks.Tasks[0].Task != "wait forever" || tasks.Tasks[0].Status != "cancelled" {
		t.Errorf("the interrupted task: %+v", tasks)
	}
}

// served reports whether a server executes a command that runs in a different but equivalent environment.
func (f *fixture) served(args ...string) bool {
	f.t.Helper()
	f.environ = append(f.environ, "NOTHING=1") // this variable does not keep the server from executing the command
	seen := f.audited(func() { f.run(args...) })
	f.environ = f.environ[:len(f.environ)-1]
	return seen
}

// audited reports whether the audit log has grown during do.
func (f *fixture) audited(do func()) bool {
	f.t.Helper()
	before := len(f.read("data/audit.jsonl"))
	do()
	return len(f.read("data/audit.jsonl")) > before // a command in its own process writes no audit event about a run
}

// TestServedCommandsSameOnly checks that a server executes a command only if the result would be the same in a process of the command's own.
func TestServedCommandsSameOnly(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "audit: {file: data/audit.jsonl}\n")
	f.run("trust").want(0)
	s := f.serve()
	program := []string{"exec", "-e", "return 1"}
	if !f.served(program...) {
		t.Error("the server did not execute the command")
	}
	for name, args := range map[string][]string{
		"--local": {"--local"}, "another time": {"--timeout", "3s"}, "another tier": {"--sandbox", "auto"}, "a log": {"--log-level", "debug"}, "a recording": {"--record", "r.json"},
	} {
		if f.served(append(program[:3:3], args...)...) {
			t.Errorf("%s: the server executed the command", name)
		}
	}
	environ := f.environ
	other := filepath.Join(f.dir, "other")
	if err := os.Chmod(f.write("other/node", ""), 0o700); err != nil {
		t.Fatal(err)
	}
	path := string(filepath.ListSeparator) + os.Getenv("PATH")
	for _, variable := range []string{"HARNESS_SANDBOX_MAXCALLS=7", "HTTPS_PROXY=http://127.0.0.1:9", "PATH=" + other + path} {
		f.environ = append(environ[:len(environ):len(environ)], variable)
		if f.served(program...) {
			t.Errorf("%s: the server executed the command", variable)
		}
	}
	f.environ = append(environ[:len(environ):len(environ)], "TERM=dumb", "PWD=/x", "LC_CTYPE=C.UTF-8", "PATH="+filepath.Join(f.dir, "none")+path)
	if !f.served(program...) {
		t.Error("the terminal, or a PATH with the same programs, matters")
	}
	f.environ = environ
	f.write("harness.yaml", "audit: {file: data/audit.jsonl}\nsandbox: {maxCalls: 5}\n")
	f.run("trust").want(0)
	if f.served(program...) {
		t.Error("the server executed a command with a configuration that it has not read")
	}
	s.stop()
	if _, err := os.Lstat(f.commandSocket()); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	f.run(program...).want(0)
}

// TestServedCommandsSocket checks that a stale socket of a killed server disturbs neither commands nor the next server, and that the path of a socket may be
// long.
func TestServedCommandsSocket(t *testing.T) {
	t.Parallel()
	for name, below := range map[string]string{"stale": "", "long": strings.Repeat("a-long-name/", 12)} {
		f := setup(t)
		f.dir = filepath.Join(f.dir, below)
		f.write("harness.yaml", "audit: {file: data/audit.jsonl}\n")
		f.run("trust").want(0)
		if below == "" {
			if err := os.MkdirAll(filepath.Dir(f.commandSocket()), 0o700); err != nil {
				t.Fatal(err)
			}
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: f.commandSocket(), Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			l.Close()
			f.run("exec", "-e", "return 1").want(0)
		}
		s := f.serve()
		if !f.served("exec", "-e", "return 1") {
			t.Errorf("%s: the server did not execute the command: %s", name, s.log)
		}
		info, err := os.Stat(filepath.Dir(f.commandSocket()))
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", name, info, err)
		}
		if below == "" {
			if info, err := os.Stat(f.commandSocket()); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v %v", info, err)
			}
		}
		s.stop()
		if left, err := os.ReadDir(filepath.Dir(f.commandSocket())); err != nil || len(left) != 1 {
			t.Errorf("%s: left is %v, %v", name, left, err)
		}
	}
}

// TestServedCommandsInterrupted checks that an interrupt cancels a served command in the same way as a command in its own process.
func TestServedCommandsInterrupted(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.serve()
	interrupted := func(args ...string) (int, string, string) {
		ctx, cancel := context.WithCancelCause(t.Context())
		var stdout bytes.Buffer
		stderr := &lockedBuffer{hit: make(chan struct{}), re: regexp.MustCompile("begun")}
		go func() {
			<-stderr.hit
			cancel(cli.Signal{Signal: syscall.SIGINT})
		}()
		code := cli.Main(ctx, f.world(append([]string{"exec", "-e", "console.log('begun'); await utils.sleep(600000)"}, args...), "", &stdout, stderr))
		return code, varying.ReplaceAllString(stdout.String(), "…"), varying.ReplaceAllString(stderr.String(), "…")
	}
	code, stdout, stderr := interrupted("--local")
	servedCode, servedStdout, servedStderr := interrupted()
	if code != 130 || servedCode != code || servedStdout != stdout || servedStderr != stderr {
		t.Errorf("local %d %s%s, served %d %s%s", code, stdout, stderr, servedCode, servedStdout, servedStderr)
	}
}

// TestServedCommandsDrained checks that the client of an endless command gets an error when its server stops, and that the command is not executed again.
func TestServedCommandsDrained(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.environ = append(f.environ, "HARNESS_SERVER_SHUTDOWNTIMEOUT=100ms")
	s := f.serve()
	var stdout bytes.Buffer
	stderr := &lockedBuffer{hit: make(chan struct{}), re: regexp.MustCompile("begun")}
	var stopped sync.WaitGroup
	stopped.Go(func() {
		<-stderr.hit
		s.stop()
	})
	code := cli.Main(t.Context(), f.world([]string{"exec", "-e", "console.log('begun'); await utils.sleep(600000)"}, "", &stdout, stderr))
	stopped.Wait()
	if text := stderr.String(); code != 3 || !strings.Contains(text, "harness serve was stopped while it executed this command") || strings.Count(text, "begun") != 1 {
		t.Errorf("%d %s%s", code, &stdout, text)
	}
}

// TestServedCommandsHostile connects to the socket without the key. No such client gets a command executed or keeps others from it.
func TestServedCommandsHostile(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "audit: {file: data/audit.jsonl}\n")
	f.run("trust").want(0)
	f.serve()
	nonce := append([]byte{0, 0, 0, 32, 'n'}, make([]byte, 32)...)
	for name, sent := range map[string][]byte{
		"nothing": nil, "other text": []byte("GET / HTTP/1.1\r\n\r\n"), "a large frame": {255, 255, 255, 255, 'n'},
		"a command without proof": append(append([]byte{}, nonce...), append([]byte{0, 0, 0, 2, 'C'}, "{}"...)...),
		"a wrong proof":           append(append([]byte{}, nonce...), append([]byte{0, 0, 0, 32, 'p'}, make([]byte, 32)...)...),
	} {
		c, err := net.Dial("unix", f.commandSocket())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(sent); err != nil {
			t.Fatal(err)
		}
		if name == "nothing" {
			continue // this connection stays open until the server's time limit
		}
		c.SetReadDeadline(time.Now().Add(patience))
		got, err := io.ReadAll(c)
		if errors.Is(err, os.ErrDeadlineExceeded) || bytes.Contains(got, []byte("accepted")) || len(got) > 100 {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if !f.served("exec", "-e", "return 1") {
		t.Error("the server does not take commands any more")
	}
}
