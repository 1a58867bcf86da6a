package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
)

// front is the front matter of a test of test262.
type front struct {
	Flags    []string
	Features []string
	Includes []string
	Negative *struct{ Phase, Type string }
}

// test262Folders are the folders below test that are run: the standard language. Intl is left out, because the guest has other tests
// for its locales, and so are staged tests, which are not yet part of the suite proper.
var test262Folders = []string{"language", "built-ins", "annexB"}

// unsupported maps features of the suite whose tests are not run to the reasons.
var unsupported = map[string]string{
	"Atomics":                          "Atomics and SharedArrayBuffer: programs have no threads",
	"SharedArrayBuffer":                "Atomics and SharedArrayBuffer: programs have no threads",
	"Atomics.pause":                    "Atomics and SharedArrayBuffer: programs have no threads",
	"Atomics.waitAsync":                "Atomics and SharedArrayBuffer: programs have no threads",
	"Temporal":                         "Temporal: newer than the engine",
	"ShadowRealm":                      proposal,
	"decorators":                       proposal,
	"import-defer":                     proposal,
	"import-text":                      proposal,
	"import-bytes":                     proposal,
	"source-phase-imports":             proposal,
	"immutable-arraybuffer":            proposal,
	"joint-iteration":                  proposal,
	"await-dictionary":                 proposal,
	"nonextensible-applies-to-private": proposal,
	"explicit-resource-management":     "",
	"host-gc-required":                 "host-gc-required: programs do not see the collector",
	"IsHTMLDDA":                        "IsHTMLDDA: an object of browsers",
	"cross-realm":                      "cross-realm: programs have one realm",
	"tail-call-optimization":           "tail-call-optimization: no engine but one has it",
}

const proposal = "a proposal that was not yet part of the language when the suite was copied"

var frontMatter = regexp.MustCompile(`(?s)/\*---\r?\n?(.*?)---\*/`)

// suite262 is a folder of test262.
type suite262 struct {
	dir string

	mu    sync.Mutex
	texts map[string]string // files of the suite's harness by name
}

// findTest262 returns the tests in a folder of test262.
func findTest262(dir string) ([]*test, error) {
	s := &suite262{dir: dir, texts: map[string]string{}}
	if _, err := s.include("assert.js"); err != nil {
		return nil, fmt.Errorf("%s is no folder of test262: %w", dir, err)
	}
	var all []*test
	for _, folder := range test262Folders {
		root := filepath.Join(dir, "test", folder)
		if _, err := os.Stat(root); err != nil {
			continue
		}
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".js") || strings.Contains(d.Name(), "_FIXTURE") {
				return err
			}
			t, err := s.test(name)
			if err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
			all = append(all, t)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// test returns the test of a file. It reads the file's front matter.
func (s *suite262) test(name string) (*test, error) {
	path, err := filepath.Rel(filepath.Join(s.dir, "test"), name)
	if err != nil {
		return nil, err
	}
	path = filepath.ToSlash(path)
	parts := strings.Split(path, "/")
	t := &test{path: "test262/" + path, group: "test262/" + strings.Join(parts[:min(2, len(parts)-1)], "/")}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var f front
	if m := frontMatter.FindSubmatch(text); m != nil {
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(m[1]), "\r", "\n")), &f); err != nil {
			return nil, err
		}
	}
	t.skip = f.skip(string(text))
	t.load = func() (*script, error) { return s.load(name, f) }
	t.judge = f.judge
	return t, nil
}

// skip returns the reason why a test is not run, or "" if it is run.
func (f *front) skip(text string) string {
	for _, feature := range f.Features {
		if reason := unsupported[feature]; reason != "" {
			return reason
		}
	}
	switch {
	case slices.Contains(f.Flags, "module"):
		return "modules: a program is no module of files"
	case slices.Contains(f.Flags, "CanBlockIsFalse"), slices.Contains(f.Flags, "CanBlockIsTrue"):
		return unsupported["Atomics"]
	case strings.Contains(text, "_FIXTURE"):
		return "modules: it imports files beside it"
	case strings.Contains(text, "$262") || slices.ContainsFunc(f.Includes, func(name string) bool { return hosts[name] }):
		return "$262: programs have no agents, realms and detached buffers of a test host"
	}
	return ""
}

// hosts are the files of the suite's harness that need the object $262.
var hosts = map[string]bool{
	"atomicsHelper.js": true, "detachArrayBuffer.js": true, "nans.js": false, "async-gc.js": true, "tco-helper.js": true, "sm/non262.js": true,
}

// load returns the script of a test.
func (s *suite262) load(name string, f front) (*script, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	made := &script{code: string(text), async: slices.Contains(f.Flags, "async")}
	if slices.Contains(f.Flags, "onlyStrict") {
		made.code = "\"use strict\";\n" + made.code
	}
	if slices.Contains(f.Flags, "raw") {
		return made, nil
	}
	includes := append([]string{"assert.js", "sta.js"}, f.Includes...)
	if made.async {
		includes = append(includes, "doneprintHandle.js")
	}
	for _, name := range includes {
		text, err := s.include(name)
		if err != nil {
			return nil, err
		}
		made.setup += text + "\n"
	}
	return made, nil
}

// include returns the text of a file of the suite's harness.
func (s *suite262) include(name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text, has := s.texts[name]; has {
		return text, nil
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "harness", filepath.FromSlash(name)))
	if err != nil {
		return "", err
	}
	s.texts[name] = string(text)
	return s.texts[name], nil
}

// judge returns the verdict for the outcome of a test.
func (f *front) judge(out *outcome) verdict {
	wrong := ""
	async := slices.Contains(f.Flags, "async")
	switch {
	case out.phase == "timeout" || out.phase == "crash":
		wrong = out.phase + ": " + out.message
	case f.Negative != nil && out.phase == "":
		wrong = "no " + f.Negative.Type
	case f.Negative != nil && out.name != f.Negative.Type && !strings.Contains(out.message, f.Negative.Type): // a thrown value may not be an Error
		wrong = fmt.Sprintf("%s in place of %s: %s", out.name, f.Negative.Type, out.message)
	case f.Negative != nil:
	case out.phase != "":
		wrong = fmt.Sprintf("%s: %s", out.name, out.message)
	case async:
		wrong = "it did not end: " + strings.Join(out.lines, "; ")
		done := map[bool]int{}
		for _, l := range out.lines {
			if strings.HasPrefix(l, doneMark) {
				done[l == doneMark+"TestComplete"]++
			}
		}
		if done[true] == 1 && done[false] == 0 {
			wrong = ""
		}
	}
	if wrong != "" {
		return verdict{failed: 1, why: []string{wrong}}
	}
	return verdict{passed: 1}
}

// lexical matches declarations of a script that stay local when eval evaluates the script.
var lexical = regexp.MustCompile(`(?m)^(?:const|let|class) ([\w$]+)`)

// globals returns the names in such declarations of a text.
func globals(text string) []string {
	names := map[string]bool{}
	for _, m := range lexical.FindAllStringSubmatch(text, -1) {
		names[m[1]] = true
	}
	return slices.Sorted(maps.Keys(names))
}
