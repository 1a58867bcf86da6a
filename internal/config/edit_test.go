package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var crm = MCPServer{Name: "crm", URL: "https://crm.example.com/mcp", Headers: map[string]string{"Authorization": "Bearer ${CRM_TOKEN}"}}

const crmBlock = "  crm:\n    url: https://crm.example.com/mcp\n    headers:\n      Authorization: \"Bearer ${CRM_TOKEN}\"\n"

const crmFlow = `"crm": {"url": "https://crm.example.com/mcp", "headers": {"Authorization": "Bearer ${CRM_TOKEN}"}}`

// deeper indents every line by two more spaces.
func deeper(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

func TestAddServer(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ before, after string }{
		"empty file":      {"", "mcpServers:\n" + crmBlock},
		"only a comment":  {"# mine\n", "# mine\n\nmcpServers:\n" + crmBlock},
		"no newline":      {"log: {level: info} # x", "log: {level: info} # x\n\nmcpServers:\n" + crmBlock},
		"nothing yet":     {"mcpServers:\n\nlog:\n", "mcpServers:\n" + crmBlock + "\nlog:\n"},
		"comments inside": {"mcpServers: # all\n  # a: {}\nlog:\n", "mcpServers: # all\n" + crmBlock + "  # a: {}\nlog:\n"},
		"null":            {"mcpServers: null # none\nlog:\n", "mcpServers: # none\n" + crmBlock + "log:\n"},
		"tilde, the end":  {"mcpServers: ~", "mcpServers:\n" + crmBlock},
		"empty braces":    {"mcpServers: {}\nlog:\n", "mcpServers: {" + crmFlow + "}\nlog:\n"},
		"behind the last": {
			"# top\nmcpServers:\n  b: {command: x} # b\n  a:\n    command: \"y\"   # odd   spacing\n    env: {K: '${A}'}\n    # of a\n\n  # what follows\nlog:\n  level: info\n",
			"# top\nmcpServers:\n  b: {command: x} # b\n  a:\n    command: \"y\"   # odd   spacing\n    env: {K: '${A}'}\n    # of a\n" + crmBlock + "\n  # what follows\nlog:\n  level: info\n",
		},
		"other indentation": {"mcpServers:\n    a:\n        command: x", "mcpServers:\n    a:\n        command: x\n" + deeper(crmBlock)},
		"a block of text":   {"mcpServers:\n  a:\n    command: |-\n      x\n      # no comment\nlog:\n", "mcpServers:\n  a:\n    command: |-\n      x\n      # no comment\n" + crmBlock + "log:\n"},
		"braces":            {"mcpServers: {a: {command: x}}\n", "mcpServers: {a: {command: x}, " + crmFlow + "}\n"},
		"braces, comma":     {"é: 1 # ü\nmcpServers: { é: {command: 'ü'} , }\n", "é: 1 # ü\nmcpServers: { é: {command: 'ü'} , " + crmFlow + " }\n"},
		"JSON": {
			"{\n  \"log\": {\"level\": \"info\"},\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}\n  }\n}\n",
			"{\n  \"log\": {\"level\": \"info\"},\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"},\n    " + crmFlow + "\n  }\n}\n",
		},
		"JSON without servers": {"{\n  \"log\": {}\n}\n", "{\n  \"log\": {},\n  \"mcpServers\": {" + crmFlow + "}\n}\n"},
		"Windows lines":        {"mcpServers:\r\n  a: {command: x}\r\n", "mcpServers:\r\n  a: {command: x}\r\n" + strings.ReplaceAll(crmBlock, "\n", "\r\n")},
		"byte order mark":      {"\ufefflog:\n", "\ufefflog:\n\nmcpServers:\n" + crmBlock},
		"anchors elsewhere":    {"mcpServers:\n  a: &a {command: x}\n  b: *a\n", "mcpServers:\n  a: &a {command: x}\n  b: *a\n" + crmBlock},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), fileName)
			if err := os.WriteFile(file, []byte(c.before), 0o640); err != nil {
				t.Fatal(err)
			}
			err := Editor{}.AddServer(file, &crm, false)
			got, readErr := os.ReadFile(file)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.after {
				t.Errorf("got\n%s\nwant\n%s", got, c.after)
			}
			if info, err := os.Stat(file); runtime.GOOS != "windows" && (err != nil || info.Mode().Perm() != 0o640) {
				t.Errorf("mode is %v, %v", info.Mode(), err)
			}
			if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
				t.Errorf("left beside the file: %v, %v", left, err)
			}
		})
	}
}

func TestAddServerRefuses(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		before string
		server MCPServer
		want   string
	}{
		"exists":          {"mcpServers: {crm: {command: x}}", crm, "it has a server of this name (file already exists); use --replace, or another name"},
		"looks the same":  {"mcpServers: {C-R_m: {command: x}}", crm, `programs cannot tell it from "C-R_m": case, - and _ do not count; use another name`},
		"bad YAML":        {"mcpServers: [", crm, "this is not valid YAML"},
		"a list":          {"- a", crm, "the file is written in a way that cannot be edited safely"},
		"an alias":        {"x: &x {a: {command: y}}\nmcpServers: *x\n", crm, "cannot be edited safely; add this below mcpServers by hand:\n" + crmBlock},
		"a comment hides": {"mcpServers: {a: {command: x} # here\n}", crm, "cannot be edited safely; add this below mcpServers by hand:\n" + crmBlock},
		"end of document": {"log: {}\n...\n", crm, "cannot be edited safely; add this below mcpServers by hand:\n" + crmBlock},
		"no command":      {"", MCPServer{Name: "x"}, "the server has neither a command nor a url"},
		"contradiction":   {"", MCPServer{Name: "x", Command: "a", URL: "http://b"}, "it contradicts command"},
		"bad name":        {"", MCPServer{Name: "a__b", Command: "a"}, "may not have __"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), fileName)
			if err := os.WriteFile(file, []byte(c.before), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := (Editor{}).AddServer(file, &c.server, false); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v\nwant %s", err, c.want)
			}
			if got, err := os.ReadFile(file); string(got) != c.before || err != nil {
				t.Errorf("the file is now %q, %v", got, err)
			}
		})
	}
	if err := (Editor{}).AddServer(filepath.Join(t.TempDir(), "none", fileName), &crm, false); err == nil {
		t.Error("a directory that does not exist is accepted")
	}
}

func TestReplaceAndRemoveServer(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ before, replaced, removed string }{
		"first in a block": {
			"mcpServers:\n  # about crm\n  crm:\n    command: old\n    # inside\n\n  # about b\n  b: {command: x}\n",
			"mcpServers:\n  # about crm\n" + crmBlock + "\n  # about b\n  b: {command: x}\n",
			"mcpServers:\n  # about crm\n\n  # about b\n  b: {command: x}\n",
		},
		"the only one": {
			"mcpServers:\n  crm: {command: old} # x\nlog:\n", "mcpServers:\n" + crmBlock + "log:\n", "mcpServers:\nlog:\n",
		},
		"last, no newline": {"mcpServers:\n  b: {command: x}\n  crm: {command: old}", "mcpServers:\n  b: {command: x}\n" + crmBlock, "mcpServers:\n  b: {command: x}\n"},
		"several lines in braces": {
			"mcpServers:\n  crm: {\n    command: old,\n  }\n  b: {command: x}\n", "mcpServers:\n" + crmBlock + "  b: {command: x}\n", "mcpServers:\n  b: {command: x}\n",
		},
		"first in braces": {"mcpServers: {crm: {command: [a]}, b: {command: x}}", "mcpServers: {" + crmFlow + ", b: {command: x}}", "mcpServers: {b: {command: x}}"},
		"last in braces":  {"mcpServers: {b: {command: x}, crm: {a: {b: c}}}", "mcpServers: {b: {command: x}, " + crmFlow + "}", "mcpServers: {b: {command: x}}"},
		"only in braces":  {"mcpServers: { crm: {command: old} }", "mcpServers: { " + crmFlow + " }", "mcpServers: {  }"},
		"in JSON": {
			"{\"mcpServers\": {\n  \"b\": {\"command\": \"{,}\"},\n  \"crm\": {\n    \"command\": \"old\"\n  }\n}}", "{\"mcpServers\": {\n  \"b\": {\"command\": \"{,}\"},\n  " + crmFlow + "\n}}",
			"{\"mcpServers\": {\n  \"b\": {\"command\": \"{,}\"}\n}}",
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), fileName)
			set := func() {
				t.Helper()
				if err := os.WriteFile(file, []byte(c.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			check := func(err error, want string) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(file); string(got) != want || err != nil {
					t.Errorf("got\n%s\nwant\n%s (%v)", got, want, err)
				}
			}
			set()
			check(Editor{}.AddServer(file, &crm, true), c.replaced)
			set()
			check(Editor{}.RemoveServer(file, "crm"), c.removed)
		})
	}
}

func TestRemoveServerRefuses(t *testing.T) {
	t.Parallel()
	for before, want := range map[string]string{
		"mcpServers: {a: {}, b: {}}": "its servers are a, b",
		"log: {}":                    "it has no servers",
		"":                           "it has no servers",
		"mcpServers:\n  <<: &m {crm: {command: x}}\n  b: {}":    "its servers are b, crm",
		"a: &a {crm: {}}\nmcpServers: *a":                       "its servers are crm",
		"mcpServers:\n  crm: &c {command: x}\n  b:\n    <<: *c": "cannot be edited safely; remove it by hand",
	} {
		file := filepath.Join(t.TempDir(), fileName)
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Editor{}.RemoveServer(file, "crm")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v, want %s", before, err, want)
		}
		if byHand := strings.Contains(want, "by hand"); errors.Is(err, fs.ErrNotExist) == byHand {
			t.Errorf("%q: error is %v", before, err)
		}
		if got, err := os.ReadFile(file); string(got) != before || err != nil {
			t.Errorf("the file is now %q, %v", got, err)
		}
	}
}

func TestCreatedFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), fileName)
	s := MCPServer{
		Name: "my server", Type: SSE, Command: "", URL: "http://x/sse", Timeout: 90e9, StartupTimeout: 60e9, Disabled: true, Stateful: true,
		EnabledTools: []string{"a b", "c*", "-y", "./data", "true", "1.5", "-1", "@x/y", ""},
	}
	if err := (Editor{}).AddServer(file, &s, false); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := `mcpServers:
  "my server":
    type: sse
    url: http://x/sse
    disabled: true
    timeout: 1m30s
    enabledTools: ["a b", "c*", -y, ./data, "true", "1.5", "-1", "@x/y", ""]
    stateful: true
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if info, err := os.Stat(file); runtime.GOOS != "windows" && (err != nil || info.Mode().Perm() != 0o600) {
		t.Errorf("mode is %v, %v: a new file may come to hold secrets", info.Mode(), err)
	}
}

// TestLinkedFile checks that a symbolic link to the file stays a link, because tools for dotfiles make such links.
func TestLinkedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.yaml"), filepath.Join(dir, fileName)
	if err := os.WriteFile(real, []byte("log:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("symbolic links need the Windows developer mode: Settings, System, For developers")
	}
	if err := (Editor{}).AddServer(link, &crm, false); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is now %v, %v", info.Mode(), err)
	}
	if got, err := os.ReadFile(real); !strings.Contains(string(got), "crm:") || err != nil {
		t.Errorf("the file holds %q, %v", got, err)
	}
}

// TestEditRoundTrip adds a server to files of many forms and removes it again. The bytes are then the original ones, what Load reads of the rest never changes,
// and the added values are read unchanged.
func TestEditRoundTrip(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), fileName)
	text := rapid.OneOf(
		rapid.SampledFrom([]string{"", "true", "~", "- a", "a: b", "#x", "a #b", "'", `"`, `\`, "${A}", "$${A}", "[x]", "{", "*a", "&a", "!t", "%", "@", "`", "1e3", "0x1", "é", "日本", "a\nb", "\t", " a ", "-", "?", ":", "2024-01-01", "🦊", "\u2028", "a:"}),
		rapid.StringMatching(`[ -~]{0,12}`),
	)
	rapid.Check(t, func(t *rapid.T) {
		comment := rapid.SampledFrom([]string{"", "", "  # note: {x}\n", "\n", "# top\n", "      # deep\n"})
		newline := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "newline")
		var b strings.Builder
		b.WriteString(comment.Draw(t, "c"))
		b.WriteString(rapid.SampledFrom([]string{"", "log: {level: warn}   # x\n", "sandbox:\n    env:\n      A: \"${X}\"\n"}).Draw(t, "head"))
		b.WriteString("mcpServers:\n")
		indent := rapid.SampledFrom([]string{"  ", "    ", " "}).Draw(t, "indent")
		for i := range rapid.IntRange(1, 3).Draw(t, "n") {
			b.WriteString(comment.Draw(t, "c"))
			body := rapid.SampledFrom([]string{
				" {command: x, args: ['a', \"b\"]} # c\n", "\nINDENT  command: x\nINDENT  env:\nINDENT      K: '${A}'\n", "\nINDENT  command: >-\nINDENT    a\nINDENT    # b\n",
			}).Draw(t, "body")
			fmt.Fprintf(&b, "%ss%d:%s", indent, i, strings.ReplaceAll(body, "INDENT", indent))
		}
		b.WriteString(comment.Draw(t, "c"))
		b.WriteString(rapid.SampledFrom([]string{"", "store:\n  sync: full # end\n"}).Draw(t, "tail"))
		before := strings.ReplaceAll(b.String(), "\n", newline)

		s := &MCPServer{
			Name: rapid.StringMatching(`[a-z]([a-z0-9 ._-]{0,6}[a-z0-9])?`).Filter(func(s string) bool {
				return !strings.Contains(s, "__") && serverName(s) == "" && !strings.HasPrefix(s, "s")
			}).Draw(t, "name"),
			Command: "run", Args: rapid.SliceOfN(text, 0, 3).Draw(t, "args"), Env: rapid.MapOfN(text, text, 0, 3).Draw(t, "env"),
		}
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := (Editor{}).AddServer(file, s, false); err != nil {
			t.Fatalf("%v\n%s", err, before)
		}
		added, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n, err := parse(added, position{source: "added", line: 1})
		if err != nil {
			t.Fatal(err)
		}
		servers, _ := n.get("mcpServers")
		entry, ok := servers.value.get(s.Name)
		if !ok {
			t.Fatalf("no %q in\n%s", s.Name, added)
		}
		got := &MCPServer{Name: s.Name}
		for _, k := range keysOf(reflect.ValueOf(got).Elem(), "") {
			if f, ok := entry.value.get(k.name()); ok {
				if err := k.assign(f.value); err != nil {
					t.Fatal(err)
				}
			}
		}
		if fmt.Sprintf("%q %q %q", got.Command, got.Args, got.Env) != fmt.Sprintf("%q %q %q", s.Command, s.Args, s.Env) {
			t.Fatalf("%q %q is read as %q %q from\n%s", s.Args, s.Env, got.Args, got.Env, added)
		}
		if err := (Editor{}).RemoveServer(file, s.Name); err != nil {
			t.Fatalf("%v\n%s", err, added)
		}
		if after, err := os.ReadFile(file); string(after) != before || err != nil {
			t.Fatalf("after adding and removing %q:\n%s\nwant\n%s", s.Name, after, before)
		}
	})
}

func TestDisableServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, disabled, enabled string }{
		{
			"block", "# a\nmcpServers:\n  x: # mine\n    command: y # its program\n  z: {command: w}\n",
			"# a\nmcpServers:\n  x: # mine\n    disabled: true\n    command: y # its program\n  z: {command: w}\n",
			"# a\nmcpServers:\n  x: # mine\n    disabled: false\n    command: y # its program\n  z: {command: w}\n",
		},
		{"braces", "mcpServers:\n  x: {command: y}\n", "mcpServers:\n  x: {command: y, \"disabled\": true}\n", "mcpServers:\n  x: {command: y, \"disabled\": false}\n"},
		{
			"disabled", "mcpServers:\n  x:\n    command: y\n    disabled: false # why\n",
			"mcpServers:\n  x:\n    command: y\n    disabled: true # why\n", "mcpServers:\n  x:\n    command: y\n    disabled: false # why\n",
		},
		{"enabled", "mcpServers: {x: {command: y, enabled: true}}", "mcpServers: {x: {command: y, enabled: false}}", "mcpServers: {x: {command: y, enabled: true}}"},
		{"Windows", "mcpServers:\r\n  x:\r\n    command: y\r\n", "mcpServers:\r\n  x:\r\n    disabled: true\r\n    command: y\r\n", "mcpServers:\r\n  x:\r\n    disabled: false\r\n    command: y\r\n"},
	} {
		file := filepath.Join(t.TempDir(), fileName)
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{c.text, c.disabled, c.disabled, c.enabled} {
			if err := (Editor{}).DisableServer(file, "x", i == 1 || i == 2); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != want {
				t.Errorf("%s, step %d: got\n%s\nwant\n%s", c.name, i, got, want)
			}
		}
	}
	for _, text := range []string{"mcpServers: {y: {command: z}}", "a: &a {command: z}\nmcpServers: {x: *a}", "mcpServers: {x: {command: y, disabled: 'false'}}"} {
		file := filepath.Join(t.TempDir(), fileName)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := (Editor{}).DisableServer(file, "x", true); err == nil || !strings.Contains(err.Error(), "by hand") {
			t.Errorf("%s: %v", text, err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}
