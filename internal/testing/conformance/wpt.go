package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// wptFolders are the folders of web-platform-tests for APIs that programs have.
var wptFolders = []string{
	"WebCryptoAPI/digest", "console", "dom/abort", "dom/events", "encoding", "fetch/api/headers",
	"html/webappapis/atob", "html/webappapis/microtask-queuing", "html/webappapis/structured-clone", "html/webappapis/timers", "url",
	"webidl/ecmascript-binding/es-exceptions", "xhr/formdata",
}

// absent matches names of subtests for APIs that programs lack. These are not counted.
var absent = regexp.MustCompile(`SharedArrayBuffer`)

//go:embed wpt.js
var wptSetup string

// wptEnd is appended to the code of a test.
const wptEnd = "\n;done();"

// suiteWPT is a folder of web-platform-tests.
type suiteWPT struct {
	dir     string
	harness string
}

// findWPT returns the tests in a folder of web-platform-tests.
func findWPT(dir string) ([]*test, error) {
	harness, err := os.ReadFile(filepath.Join(dir, "resources", "testharness.js"))
	if err != nil {
		return nil, fmt.Errorf("%s is no folder of web-platform-tests: %w", dir, err)
	}
	s := &suiteWPT{dir: dir, harness: string(harness)}
	var all []*test
	for _, folder := range wptFolders {
		root := filepath.Join(dir, filepath.FromSlash(folder))
		if _, err := os.Stat(root); err != nil {
			continue
		}
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			for _, other := range []string{"resources", "support", "crashtests"} {
				if d.IsDir() && d.Name() == other {
					return fs.SkipDir
				}
			}
			t, err := s.test(name)
			if t != nil {
				all = append(all, t)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// scriptTag matches a script of a page, with its attributes and its text.
var scriptTag = regexp.MustCompile(`(?s)<script([^>]*)>(.*?)</script>`)

var srcAttribute = regexp.MustCompile(`src\s*=\s*["']?([^"'\s>]+)`)

// test returns the test of a file, or nil if the file is not a test.
func (s *suiteWPT) test(name string) (*test, error) {
	rel, err := filepath.Rel(s.dir, name)
	if err != nil {
		return nil, err
	}
	at := filepath.ToSlash(rel)
	t := &test{path: "wpt/" + at, group: "wpt/" + wptGroup(at), web: true, judge: judgeWPT}
	if !strings.HasSuffix(at, ".any.js") && !strings.HasSuffix(at, ".window.js") && !strings.HasSuffix(at, ".html") {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var before []string // paths of scripts to evaluate before the test
	code := string(text)
	if strings.HasSuffix(at, ".html") {
		if !strings.Contains(code, "testharness.js") {
			return nil, nil
		}
		before, code = pageScripts(code)
		if regexp.MustCompile(`\b(document|window|iframe|frames)\b|<(a|div|form|input|button|table|frame|iframe|canvas)\b`).MatchString(code + scriptTag.ReplaceAllString(string(text), "")) {
			t.skip = "pages: it needs a document"
		}
	} else {
		for _, m := range regexp.MustCompile(`(?m)^// META: script=(\S+)`).FindAllStringSubmatch(code, -1) {
			before = append(before, m[1])
		}
		if m := regexp.MustCompile(`(?m)^// META: global=(\S+)`).FindStringSubmatch(code); m != nil && !regexp.MustCompile(`\b(window|worker|dedicatedworker)\b`).MatchString(m[1]) {
			t.skip = "other globals than those of a window or worker"
		}
		if strings.Contains(at, "idlharness-shadowrealm") {
			t.skip = "other globals than those of a window or worker"
		}
	}
	if strings.Contains(at, "encoding/streams/") {
		t.skip = "streams: programs have none"
	}
	t.load = func() (*script, error) { return s.load(at, before, code) }
	return t, nil
}

// wptGroup returns the group in which a file is counted: its folder, or one of three groups for files of the folder url.
func wptGroup(at string) string {
	base := path.Base(at)
	switch {
	case strings.HasPrefix(base, "urlsearchparams-"), base == "urlencoded-parser.any.js", base == "url-searchparams.any.js":
		return "url/searchparams"
	case base == "toascii.window.js", base == "IdnaTestV2.window.js", base == "IdnaTestV2-removed.window.js":
		return "url/idna"
	case path.Dir(at) == "url":
		return "url/url"
	}
	return path.Dir(at)
}

// pageScripts extracts the scripts of a page: the paths of external scripts, and the text of the others.
func pageScripts(page string) (paths []string, code string) {
	for _, m := range scriptTag.FindAllStringSubmatch(page, -1) {
		if src := srcAttribute.FindStringSubmatch(m[1]); src != nil {
			if !strings.Contains(src[1], "/resources/testharness") {
				paths = append(paths, src[1])
			}
			continue
		}
		code += m[2] + "\n"
	}
	return paths, code
}

// load returns the script of a test: the harness, the scripts that the test names, and the test's own code.
func (s *suiteWPT) load(at string, before []string, code string) (*script, error) {
	made := &script{async: true, setup: wptSetup + s.harness + "\n;begin();\n", code: code + wptEnd, files: map[string]string{}}
	for _, name := range before {
		text, err := s.read(at, name)
		if err != nil {
			return nil, err
		}
		made.setup += text + "\n"
	}
	for _, pattern := range []string{path.Join(path.Dir(at), "resources", "*"), "interfaces/*"} {
		found, err := filepath.Glob(filepath.Join(s.dir, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			name := "resources/" + filepath.Base(file)
			if strings.HasPrefix(pattern, "interfaces") {
				name = "/interfaces/" + filepath.Base(file)
			}
			made.files[url.PathEscape(name)] = file
		}
	}
	return made, nil
}

// read reads a script that the test at a path names. The suite's server provides one script under another name.
func (s *suiteWPT) read(at, name string) (string, error) {
	if name == "/resources/WebIDLParser.js" {
		name = "/resources/webidl2/lib/webidl2.js"
	}
	file := path.Join(path.Dir(at), name)
	if strings.HasPrefix(name, "/") {
		file = path.Clean(name)
	}
	text, err := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(file)))
	return string(text), err
}

// judgeWPT returns the verdict for a test by counting its subtests.
func judgeWPT(out *outcome) verdict {
	for _, l := range out.lines {
		text, done := strings.CutPrefix(l, doneMark)
		if !done {
			continue
		}
		var got struct {
			Status  int
			Message string
			Tests   []struct {
				Name, Message string
				Status        int
			}
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			return verdict{failed: 1, why: []string{err.Error()}}
		}
		var v verdict
		if got.Status != 0 {
			v.why = append(v.why, "harness: "+got.Message)
		}
		for _, t := range got.Tests {
			switch {
			case absent.MatchString(t.Name):
				continue
			case t.Status == 0:
				v.passed++
				continue
			}
			v.failed++
			v.why = append(v.why, t.Name+": "+t.Message)
		}
		return v
	}
	why := errors.New("it did not end")
	if out.phase != "" {
		why = fmt.Errorf("%s %s: %s", out.phase, out.name, out.message)
	}
	return verdict{failed: 1, why: []string{why.Error()}}
}
