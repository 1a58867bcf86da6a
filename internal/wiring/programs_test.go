package wiring_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
)

// sample is a program as models write it for Node.js, from a file testdata/programs/*.txt. In the file, each program follows a line with "=== " and its name.
// The file with the ending .out contains what Node.js prints. A first line "// refused: text" means that the sandbox lacks what the program uses: the run
// fails with an error or a hint that contains the text.
type sample struct {
	name, code, refused, want string
}

// updateProgramsVar makes TestPrograms record what Node.js prints.
const updateProgramsVar = "HARNESS_TEST_UPDATE"

// readSections reads a file with names and texts.
func readSections(t *testing.T, path string) (names []string, texts map[string]string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	texts = map[string]string{}
	for _, section := range strings.Split("\n"+string(data), "\n=== ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		if _, twice := texts[name]; twice {
			t.Fatalf("%s: two programs are named %q", path, name)
		}
		names = append(names, name)
		texts[name] = strings.TrimSuffix(text, "\n")
	}
	return names, texts
}

func readSamples(t *testing.T, path string) []*sample {
	t.Helper()
	names, programs := readSections(t, path)
	recorded := strings.TrimSuffix(path, ".txt") + ".out"
	if os.Getenv(updateProgramsVar) != "" {
		recordSamples(t, recorded, names, programs)
	}
	_, printed := readSections(t, recorded)
	var all []*sample
	for _, name := range names {
		want, has := printed[name]
		if !has {
			t.Errorf("%s has nothing of %q: %s=1 records it", recorded, name, updateProgramsVar)
		}
		s := &sample{name: name, code: programs[name], want: want}
		if first, _, _ := strings.Cut(s.code, "\n"); strings.HasPrefix(first, "// refused: ") {
			s.refused = strings.TrimPrefix(first, "// refused: ")
		}
		all = append(all, s)
	}
	return all
}

// modular matches code that Node.js reads as an ES module, because it imports or awaits outside of functions.
var modular = regexp.MustCompile(`(?m)^(import .* from |const .* = await |await )`)

// recordSamples writes the output of Node.js 20.
func recordSamples(t *testing.T, path string, names []string, programs map[string]string) {
	t.Helper()
	version, err := exec.Command("node", "--version").Output()
	if err != nil || !bytes.HasPrefix(version, []byte("v20.")) {
		t.Fatalf("recording takes Node.js 20; there is %s %v", version, err)
	}
	var all strings.Builder
	for _, name := range names {
		dir := t.TempDir()
		file := filepath.Join(dir, "program.cjs")
		if modular.MatchString(programs[name]) {
			file = filepath.Join(dir, "program.mjs")
		}
		if err := os.WriteFile(file, []byte(programs[name]), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "node", file)
		cmd.Dir, cmd.Env = dir, []string{"TZ=UTC", "LANG=en_US.UTF-8", "PATH=" + os.Getenv("PATH"), "NO_COLOR=1"}
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: node: %v", name, err)
		}
		if strings.Contains(string(out), "\n=== ") {
			t.Fatalf("%s prints what separates programs", name)
		}
		fmt.Fprintf(&all, "=== %s\n%s\n", name, strings.TrimSuffix(string(out), "\n"))
	}
	if err := os.WriteFile(path, []byte(all.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// maxRefused is the maximum share of the programs that may be refused.
const maxRefused = 0.03

// TestPrograms runs programs as models write them, and replays them. Each prints the same as in Node.js, or fails with an error that says what to do instead.
func TestPrograms(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/programs/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("there are no programs", err)
	}
	var all []*sample
	for _, path := range paths {
		all = append(all, readSamples(t, path)...)
	}
	refused := 0
	for _, s := range all {
		if s.refused != "" {
			refused++
		}
	}
	if len(all) < 300 || float64(refused) > maxRefused*float64(len(all)) {
		t.Errorf("of %d programs %d are refused", len(all), refused)
	}
	f := setup(t, map[string]string{"pii.enabled": "false"})
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			out := f.exec(runs.Request{Code: s.code})
			s.check(t, out)
		})
	}
}

// check checks how a program ended.
func (s *sample) check(t *testing.T, out *run.Outcome) {
	t.Helper()
	if s.refused != "" {
		if out.Error == nil || !strings.Contains(out.Error.Message+"; "+out.Error.Hint, s.refused) {
			t.Errorf("it is to be refused with %q, and ended with %+v", s.refused, out.Error)
		}
		return
	}
	var printed []string
	for _, l := range out.Logs {
		if l.Level != "warn" && l.Level != "error" { // Node.js prints these to its standard error.
			printed = append(printed, l.Text)
		}
	}
	if got := strings.TrimSuffix(strings.Join(printed, "\n"), "\n"); got != s.want || out.Error != nil {
		t.Errorf("what it prints (-Node.js +here)\n%s\nit ended with %+v", cmp.Diff(strings.Split(s.want, "\n"), strings.Split(got, "\n")), out.Error)
	}
}
