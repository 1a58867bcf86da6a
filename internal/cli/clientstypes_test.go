package cli_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/testing/npmtest"
)

// TestClientsTypeScript checks that the types of the client in TypeScript are those of the server's document, and that its JavaScript is what the compiler
// makes of it. go test -run TestClientsTypeScript -update writes both.
func TestClientsTypeScript(t *testing.T) {
	t.Parallel()
	d := readDocument(t, setup(t).serve().url)
	dir := clientDir("typescript")
	source, err := os.ReadFile(filepath.Join(dir, "harness.ts"))
	if err != nil {
		t.Fatal(err)
	}
	made := t.TempDir()
	types := d.typeScript(string(source))
	for name, text := range map[string]string{"harness.ts": string(source), "types.d.ts": types, "package.json": `{"type": "module"}`, "use.ts": eventTypes} {
		if err := os.WriteFile(filepath.Join(made, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tsc := filepath.Join(npmtest.TypeScript(t), "node_modules", "typescript", "bin", "tsc")
	out, err := exec.Command("node", tsc, "--strict", "--declaration", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom,dom.iterable",
		"--typeRoots", made, "--pretty", "false", filepath.Join(made, "harness.ts"), filepath.Join(made, "use.ts")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"types.d.ts", "harness.js", "harness.d.ts"} {
		want, err := os.ReadFile(filepath.Join(made, name))
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(filepath.Join(dir, name), want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != string(want) {
			t.Errorf("%s is not what its source says (%v): go test ./internal/cli -run TestClientsTypeScript -update", name, err)
		}
	}
}

// eventTypes is a program that has the compiler check the types of events: the type of an event says what its data is.
const eventTypes = `import { Harness } from './harness.js'
for await (const e of new Harness().taskEvents('task_1')) {
  if (e.type === 'run.log') e.data.level satisfies 'log' | 'info' | 'warn' | 'error' | 'debug'
  if (e.type === 'task.ended') e.data.status satisfies string
  // @ts-expect-error a log line has no status
  if (e.type === 'run.log') e.data.status
  // @ts-expect-error there is no such event
  if (e.type === 'run.lgo') e.id
}
for await (const e of new Harness().runEvents('run_1')) if (e.type === 'run.ended') e.data.status satisfies string
`

// typeScript returns declarations of the schemas that a source uses as t.Name, and of those that they refer to.
func (d *apiDocument) typeScript(source string) string {
	need := map[string]bool{}
	var add func(name string)
	var walk func(s apiSchema)
	walk = func(s apiSchema) {
		if s.Ref != "" {
			add(s.Ref[strings.LastIndex(s.Ref, "/")+1:])
		}
		for _, one := range s.OneOf {
			walk(one)
		}
		for _, field := range s.Properties {
			walk(field)
		}
		if s.Items != nil {
			walk(*s.Items)
		}
	}
	add = func(name string) {
		if !need[name] {
			need[name] = true
			walk(d.Components.Schemas[name])
		}
	}
	for _, used := range regexp.MustCompile(`\bt\.([A-Z]\w+)`).FindAllStringSubmatch(source, -1) {
		add(used[1])
	}
	var b strings.Builder
	b.WriteString("// Types of the HTTP API, generated from its OpenAPI document: go test ./internal/cli -run TestClientsTypeScript -update\n")
	for _, name := range slices.Sorted(maps.Keys(need)) {
		s := d.Components.Schemas[name]
		if s.Properties == nil {
			fmt.Fprintf(&b, "\nexport type %s = %s\n", name, s.typeScript())
			continue
		}
		fmt.Fprintf(&b, "\nexport interface %s {\n", name)
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			of, optional := s.Properties[field], "?"
			if slices.Contains(s.Required, field) {
				optional = ""
			}
			if of.Doc != "" {
				fmt.Fprintf(&b, "  /** %s */\n", strings.ReplaceAll(of.Doc, "*/", "*\\/"))
			}
			if !regexp.MustCompile(`^\w+$`).MatchString(field) {
				field = strconv.Quote(field)
			}
			fmt.Fprintf(&b, "  %s%s: %s\n", field, optional, of.typeScript())
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// typeScript returns the type of a schema.
func (s apiSchema) typeScript() string {
	switch {
	case s.Ref != "":
		return s.Ref[strings.LastIndex(s.Ref, "/")+1:]
	case len(s.OneOf) > 0:
		var all []string
		for _, one := range s.OneOf {
			all = append(all, one.typeScript())
		}
		return strings.Join(all, " | ")
	case len(s.Enum) > 0:
		var all []string
		for _, value := range s.Enum {
			all = append(all, "'"+value+"'")
		}
		return strings.Join(all, " | ")
	case s.Type == "array" && s.Items != nil:
		item := s.Items.typeScript()
		if strings.Contains(item, " ") {
			item = "(" + item + ")"
		}
		return item + "[]"
	case s.Type == "object":
		return "Record<string, any>"
	case s.Type == "integer" || s.Type == "number":
		return "number"
	case s.Type == "string" || s.Type == "boolean":
		return s.Type
	}
	return "any"
}
