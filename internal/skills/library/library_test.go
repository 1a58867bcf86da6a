package library_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/n8n"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/skills/library"
	"mcp-code-exec-harness/internal/testing/child"
	"mcp-code-exec-harness/internal/wiring"
)

// TestMain makes the test binary a worker when the harness executes it as one.
func TestMain(m *testing.M) {
	if code, ok := cli.Hidden(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	dir, err := os.MkdirTemp("", "harness-library-test-")
	if err != nil {
		panic(err)
	}
	cache = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// cache holds the compiled engine for all tests.
var cache string

// patience is the maximum wait of tests; only a failure reaches it.
const patience = 3 * time.Minute

// open returns a harness whose user "local" has all skills of the library. flags are configuration keys and values.
func open(t testing.TB, flags map[string]string, servers ...*config.MCPServer) *wiring.Harness {
	t.Helper()
	dir := t.TempDir()
	saved, err := skills.Open(filepath.Join(dir, "skills"), files.Limits{}, skills.Options{})
	if err != nil {
		t.Fatal(err)
	}
	home, err := saved.Dir("local")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range library.Names() {
		for file, text := range read(t, name) {
			if err := home.WriteFile(path.Join(name, file), []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	home.Close()
	saved.Close()
	all := map[string]string{
		"store.url": "sqlite:" + filepath.Join(dir, "harness.db"), "skills.dir": filepath.Join(dir, "skills"), "workspace.dir": filepath.Join(dir, "workspace"),
		"pii.enabled": "false", "pii.keyFile": filepath.Join(dir, "pii.key"), "sandbox.timeout": "2m",
	}
	for key, value := range flags {
		all[key] = value
	}
	cfg, _, err := config.Load(config.Env{Flags: all, Cwd: dir, HomeDir: dir, GOOS: runtime.GOOS})
	if err != nil {
		t.Fatal(err)
	}
	cfg.MCPServers = append(cfg.MCPServers, servers...)
	h, err := wiring.Open(t.Context(), cfg, wiring.Outside{
		Environ: os.Environ(), Executable: child.Executable(t), CacheDir: cache, Now: time.Now, Version: "test", ToolCache: filepath.Join(dir, "tools"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return h
}

// read returns the files of a skill.
func read(t testing.TB, name string) map[string]string {
	t.Helper()
	folder, err := library.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	err = fs.WalkDir(folder, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(folder, file)
		all[file] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// execute runs a program and returns what it returned.
func execute(t testing.TB, h *wiring.Harness, req runs.Request) any {
	t.Helper()
	out := outcome(t, h, req)
	if out.Error != nil {
		t.Fatalf("the program failed: %+v", out.Error)
	}
	return decoded(t, string(out.Output))
}

func outcome(t testing.TB, h *wiring.Harness, req runs.Request) *run.Outcome {
	t.Helper()
	req.User = "local"
	out, err := h.Runs().Execute(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func decoded(t testing.TB, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	return value
}

// example is an entry of examples.json: an input, or the lines of a program that uses the skill as the variable skill, and what is expected.
type example struct {
	Name   string          `json:"name"`
	Input  json.RawMessage `json:"input"`
	Code   []string        `json:"code"`
	Output json.RawMessage `json:"output"`
	Error  string          `json:"error"` // a part of the message of the error
	// OutsideSchema marks an input that the skill accepts and its schema does not.
	OutsideSchema bool `json:"outsideSchema"`
}

func examples(t testing.TB, name string) (all []example) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(read(t, name)["examples.json"]))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

// ours returns the skills of this package.
func ours() []string {
	return slices.DeleteFunc(library.Names(), func(name string) bool { return name == n8n.SkillName })
}

// TestExamples executes the examples of each skill in a sandbox.
func TestExamples(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	for _, name := range ours() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := examples(t, name)
			if len(all) < 8 {
				t.Errorf("there are only %d examples", len(all))
			}
			var code strings.Builder
			fmt.Fprintf(&code, `import skill from '/skills/%s/index.js'
const examples = JSON.parse(await fs.readFile('/skills/%[1]s/examples.json', 'utf8'))
const programs = {`, name)
			for i, e := range all {
				if e.Code != nil {
					fmt.Fprintf(&code, "%d: async () => {\n%s\n},\n", i, strings.Join(e.Code, "\n"))
				}
			}
			code.WriteString(`}
const results = []
for (const [i, e] of examples.entries()) {
  try {
    results.push({ output: programs[i] ? await programs[i]() : await skill(e.input) })
  } catch (error) {
    results.push({ error: error.name + ': ' + error.message })
  }
}
return results`)
			results, _ := execute(t, h, runs.Request{Code: code.String()}).([]any)
			if len(results) != len(all) {
				t.Fatalf("there are %d results of %d examples", len(results), len(all))
			}
			for i, e := range all {
				result := results[i].(map[string]any)
				message, failed := result["error"].(string)
				switch {
				case e.Error != "":
					if !strings.Contains(message, e.Error) {
						t.Errorf("%s: the error is %q, want %q; the output is %v", e.Name, message, e.Error, result["output"])
					}
				case failed:
					t.Errorf("%s: %s", e.Name, message)
				default:
					if diff := cmp.Diff(decoded(t, string(e.Output)), result["output"]); diff != "" {
						t.Errorf("%s: (-want +got)\n%s", e.Name, diff)
					}
				}
			}
		})
	}
}

// commentStart matches the beginning of a comment.
var commentStart = regexp.MustCompile(`\s//\s`)

// fence matches a program in SKILL.md.
var fence = regexp.MustCompile("(?s)```js\n(.*?)```")

// TestManifests checks that SKILL.md of each skill keeps to the Agent Skills format and describes the input that the skill takes.
func TestManifests(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	saved, err := h.Skills()
	if err != nil {
		t.Fatal(err)
	}
	listed, err := saved.List("local")
	if err != nil {
		t.Fatal(err)
	}
	if len(listed) != 12 || len(library.Names()) != 12 {
		t.Errorf("the library has %d skills, and the user %d, want 12", len(library.Names()), len(listed))
	}
	for _, k := range listed {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			if k.Problem != "" || k.Kind != skills.Folder || k.Description == "" || !slices.Contains(library.Names(), k.Name) {
				t.Errorf("the harness describes it as %+v", k)
			}
			text := read(t, k.Name)["SKILL.md"]
			head, body, ok := strings.Cut(strings.TrimPrefix(text, "---\n"), "\n---\n")
			if !ok {
				t.Fatal("SKILL.md has no head")
			}
			var f struct {
				Name, Description, License, Compatibility string
				AllowedTools                              string            `yaml:"allowed-tools"`
				Metadata                                  map[string]string `yaml:"metadata"`
			}
			if err := yaml.UnmarshalWithOptions([]byte(head), &f, yaml.Strict()); err != nil {
				t.Fatalf("the head has other fields than the format: %v", err)
			}
			if f.Name != k.Name || len(f.Name) > 64 || !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(f.Name) {
				t.Errorf("name %q", f.Name)
			}
			if n := utf8.RuneCountInString(f.Description); n > 1024 || n < 60 || !strings.Contains(f.Description, "Use it ") || f.Description != k.Description {
				t.Errorf("a description of %d characters that says when to use the skill: %q", n, f.Description)
			}
			if n := strings.Count(body, "\n"); n > 500 {
				t.Errorf("the body has %d lines; the format asks for at most 500", n)
			}
			if !fence.MatchString(body) {
				t.Error("the body has no program as an example")
			}
			if k.Name == n8n.SkillName {
				return
			}
			if !slices.Equal(k.Exports, []string{"default"}) {
				t.Errorf("it exports %q", k.Exports)
			}
			for _, heading := range []string{"## Input", "## Output", "## Example", "## Limits"} {
				if !strings.Contains(body, "\n"+heading+"\n") {
					t.Errorf("the body has no %q", heading)
				}
			}
			schema, declared := f.Metadata["input"]
			if takesData := slices.ContainsFunc(examples(t, k.Name), func(e example) bool { return e.Input != nil }); takesData != declared {
				t.Errorf("metadata.input is there: %v; the examples have inputs: %v", declared, takesData)
			}
			if declared {
				takes(t, k.Name, schema)
			}
		})
	}
}

// takes checks that the schema of a skill's input accepts the inputs of its examples that the skill takes, and describes each of their fields.
func takes(t *testing.T, name, schema string) {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("input.json", decoded(t, schema)); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("input.json")
	if err != nil {
		t.Fatal(err)
	}
	known, _ := decoded(t, schema).(map[string]any)["properties"].(map[string]any)
	for _, e := range examples(t, name) {
		if e.Input == nil || e.Error != "" || e.OutsideSchema {
			continue
		}
		input := decoded(t, string(e.Input))
		if err := compiled.Validate(input); err != nil {
			t.Errorf("%s: the schema of the input refuses the example: %v", e.Name, err)
		}
		for field := range input.(map[string]any) {
			if known[field] == nil {
				t.Errorf("%s: the schema has no field %q", e.Name, field)
			}
		}
	}
}

// TestPrograms executes the first program in SKILL.md of each skill that calls no tool, and compares what it returns with the comment at its end.
func TestPrograms(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	for _, name := range ours() {
		found := fence.FindStringSubmatch(read(t, name)["SKILL.md"])
		if found == nil || strings.Contains(found[1], "tools.") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := execute(t, h, runs.Request{Code: found[1]})
			end := found[1][strings.LastIndex(found[1], "\nreturn "):]
			at := commentStart.FindStringIndex(end)
			if at == nil {
				t.Fatal("no comment at the end says what the program returns")
			}
			want := execute(t, h, runs.Request{Code: "return (" + strings.ReplaceAll(end[at[1]:], "\n//", "\n") + ")"})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"none", "", ".", "../n8n", "template/SKILL.md"} {
		if _, err := library.Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range library.Names() {
		if read(t, name)["SKILL.md"] == "" {
			t.Errorf("%s has no SKILL.md", name)
		}
	}
}
