package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(jsonSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("harness.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("harness.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	j, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(j))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

// uncommented returns the template with all settings and examples uncommented.
func uncommented() []byte {
	text := regexp.MustCompile(`(?m)^#(\S| {2})`).ReplaceAll(template, []byte("$1"))
	return regexp.MustCompile(`(?m)^  # (.*:.*)$`).ReplaceAll(text, []byte("  $1"))
}

// TestTemplate checks that the template sets nothing. Without its comment marks, it sets every key to its default.
func TestTemplate(t *testing.T) {
	t.Parallel()
	plain, _ := load(t, world(t, map[string]string{"work/harness.yaml": string(template)}))
	for _, e := range plain.Effective() {
		if e.Origin != "default" {
			t.Errorf("the template sets %+v", e)
		}
	}
	all := world(t, map[string]string{"work/harness.yaml": string(uncommented()), "work/.env": "CRM_TOKEN=t"})
	c, warnings := load(t, all)
	if len(warnings) != 0 {
		t.Error(warnings)
	}
	empty, _ := load(t, world(t, map[string]string{"work/harness.yaml": ""}))
	ignore := cmp.Options{
		unexported, cmpopts.IgnoreUnexported(MCPServer{}), cmpopts.IgnoreFields(Config{}, "MCPServers", "PII.KeyFile", "File", "StateDir"), cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(Skills{}, "Dir"), cmpopts.IgnoreFields(Workspace{}, "Dir"), cmpopts.IgnoreFields(Store{}, "URL"),
		cmpopts.IgnoreFields(Audit{}, "File"),
	}
	if diff := cmp.Diff(empty, c, ignore); diff != "" {
		t.Errorf("the template shows other values than the defaults (-default +template)\n%s", diff)
	}
	if want := filepath.Join(all.Cwd, "data"); c.Skills.Dir != filepath.Join(want, "skills") || c.Workspace.Dir != filepath.Join(want, "workspace") ||
		c.Store.URL != "sqlite:"+filepath.Join(want, "harness.db") || c.Audit.File != filepath.Join(want, "audit.jsonl") {
		t.Errorf("the template's directories are not the defaults: %+v %+v %+v %+v", c.Skills, c.Workspace, c.Store, c.Audit)
	}
	for _, e := range c.Effective() {
		if e.Origin == "default" {
			t.Errorf("the template does not show %s", e.Key)
		}
	}
	if len(c.MCPServers) != 2 {
		t.Errorf("the examples are %+v", c.MCPServers)
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	s := schema(t)
	for what, text := range map[string]string{
		"template": string(template), "all of the template": string(uncommented()), "schema key": "$schema: x", "sections of nothing": "log:\nmcpServers:",
		"numbers":      "sandbox: {memory: 104857600, env: {A: 1}, prelude: a.js}\njournal: {retention: 0}",
		"other names":  "model: {deployment: d, endpoint: 'https://h', maxCost: 0.5, prices: {m: {input: 1, output: 2.5}}}",
		"groups":       "server: {tls: {cert: a, key: b}, metrics:}\nauth: {oidc: {issuer: 'https://h'}}",
		"policy":       "policy: {preset: strict, rules: [{tools: [a__b], args: {$.n: {min: -1, equals: 5}}, tokens: {}, action: deny}]}",
		"short policy": shortPolicy,
		"placeholders": "mcpServers: {a: {url: '${U}', timeout: '${T}', disabled: 'true', other: [1]}}",
	} {
		if err := validate(t, s, []byte(text)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, text := range []string{
		"sandbx: {}", "sandbox: {timout: 1s}", "sandbox: {timeout: 30}", "sandbox: {timeout: soon}", "sandbox: {memory: lots}", "sandbox: {tier: vm}",
		"sandbox: {maxCalls: x}", "sandbox: {pool: -1}", "mcpServers: {a: x}", "mcpServers: {a: {timeout: 5}}", "pii: {vault: disk}", "[]",
		"server: {tls: x}", "server: {tls: {crt: x}}", "server: {workers: -1}", "model: {maxCost: -1}", "model: {prices: {m: {input: 1}}}",
		"model: {prices: {m: {input: 1, output: 2, x: 3}}}", "model: {provider: x}", "policy: strict", "policy: [{tools: '*'}]",
		"policy: [{tools: '*', action: no}]", "policy: {preset: x}", "policy: [{tools: '*', action: ask, when: {x: true}}]",
	} {
		if validate(t, s, []byte(text)) == nil {
			t.Errorf("the schema accepts %s", text)
		}
	}
	// Every key has a description for editors.
	type described struct {
		Description          string
		Properties           map[string]described
		AdditionalProperties json.RawMessage
	}
	var check func(path string, d described)
	check = func(path string, d described) {
		if !strings.HasSuffix(d.Description, ".") {
			t.Errorf("%s is described as %q", path, d.Description)
		}
		for name, inner := range d.Properties {
			check(path+"."+name, inner)
		}
		var entry described
		if json.Unmarshal(d.AdditionalProperties, &entry) == nil {
			for name, inner := range entry.Properties {
				check(path+".*."+name, inner)
			}
		}
	}
	var doc described
	if err := json.Unmarshal(jsonSchema(), &doc); err != nil {
		t.Fatal(err)
	}
	delete(doc.Properties, "$schema")
	for name, d := range doc.Properties {
		check(name, d)
	}
}

func TestInit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files, err := Init(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(dir, "harness.yaml"), filepath.Join(dir, "harness.schema.json")}; !cmp.Equal(files, want) {
		t.Errorf("files are %v", files)
	}
	if got, err := os.ReadFile(files[1]); !bytes.Equal(got, jsonSchema()) || err != nil {
		t.Errorf("the schema is not written: %v", err)
	}
	if err := os.WriteFile(files[0], []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Init(dir); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "edit it, or remove it first") {
		t.Errorf("error is %v", err)
	}
	if got, _ := os.ReadFile(files[0]); string(got) != "mine" {
		t.Errorf("the file is now %q", got)
	}
	if _, err := Init(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that does not exist is accepted")
	}
}
