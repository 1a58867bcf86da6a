package cli_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Texts of documents that begin with a command of the harness: in backquotes, and lines of blocks.
var (
	quotedCommand = regexp.MustCompile("`((?:\\./bin/)?harness [^`\n]+)`")
	blockCommand  = regexp.MustCompile(`(?m)^(?:[$>] )?((?:\./bin/)?harness .+)$`)
	fences        = regexp.MustCompile("(?sm)^```[^\n]*\n(.*?)^```")
	endOfCommand  = regexp.MustCompile(` (?:\||&&|\|\||;|#|--|>|<) `)
)

// manualPages returns the manual page of each command, by the words of the command.
func manualPages(t *testing.T) map[string]string {
	t.Helper()
	f := setup(t)
	pages := filepath.Join(f.dir, "man")
	f.run("man", "--dir", pages).want(0)
	commands := map[string]string{}
	files, err := filepath.Glob(filepath.Join(pages, "harness*.1"))
	if err != nil || len(files) < 50 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		synopsis := regexp.MustCompile(`(?m)^\.SH SYNOPSIS\n\\fBharness ?([a-z0-9 -]*)`).FindSubmatch(text)
		if synopsis == nil {
			t.Fatalf("%s: no synopsis", file)
		}
		commands[strings.TrimSpace(strings.ReplaceAll(string(synopsis[1]), "\\-", "-"))] = strings.ReplaceAll(string(text), "\\-", "-")
	}
	return commands
}

// TestDocumentsNameCommands checks that the commands and flags of the harness that the documents name exist.
func TestDocumentsNameCommands(t *testing.T) {
	t.Parallel()
	commands := manualPages(t)
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(documents) < 10 {
		t.Fatal(documents, err)
	}
	named := 0
	for _, document := range append(documents, "../../README.md", "../../CONTRIBUTING.md") {
		raw, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		var lines [][]string
		for _, block := range fences.FindAllStringSubmatch(string(raw), -1) {
			lines = append(lines, blockCommand.FindAllStringSubmatch(block[1], -1)...)
		}
		lines = append(lines, quotedCommand.FindAllStringSubmatch(fences.ReplaceAllString(string(raw), ""), -1)...)
		for _, line := range lines {
			named++
			if problem := unknownIn(line[1], commands); problem != "" {
				t.Errorf("%s: %s: %s", filepath.Base(document), line[1], problem)
			}
		}
	}
	if named < 200 {
		t.Errorf("the documents name only %d commands", named)
	}
	for line, want := range map[string]string{"harness rnus list": "no command rnus", "harness runs lst": "no command lst", "harness runs list --usr x": "no flag --usr"} {
		if got := unknownIn(line, commands); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestMessagesNameCommands checks that the commands of groups, such as harness runs settle, that messages of the product name exist.
func TestMessagesNameCommands(t *testing.T) {
	t.Parallel()
	commands, named := manualPages(t), 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "../pii/") { // names of keys in pii begin so
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if !ok || text.Kind != token.STRING {
				return true
			}
			for _, m := range regexp.MustCompile(`\bharness ([a-z0-9]+) ([a-z][a-z-]+)\b`).FindAllStringSubmatch(text.Value, -1) {
				if _, known := commands[m[1]+" "+m[2]]; known {
					named++
				} else if group(m[1], commands) {
					t.Errorf("%s: there is no command %q", path, m[0])
				}
			}
			return true
		})
		return nil
	})
	if err != nil || named < 50 {
		t.Errorf("%d commands, %v", named, err)
	}
}

// unknownIn returns what a command line has that the harness has not, or "". commands are the manual pages by the words of the commands.
func unknownIn(line string, commands map[string]string) string {
	line = endOfCommand.Split(line+" ", 2)[0]
	words := strings.Fields(line)[1:]
	name, word := "", regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	for len(words) > 0 && word.MatchString(words[0]) {
		longer := strings.TrimSpace(name + " " + words[0])
		if _, known := commands[longer]; !known {
			if name == "help" || name != "" && !group(name, commands) {
				break
			}
			return "no command " + words[0]
		}
		name, words = longer, words[1:]
	}
	for _, flag := range regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`).FindAllStringSubmatch(strings.Join(words, " "), -1) {
		if !strings.Contains(commands[name], flag[1]+`\fP`) {
			return "no flag " + flag[1]
		}
	}
	return ""
}

// group reports whether a command has commands of its own.
func group(name string, commands map[string]string) bool {
	for other := range commands {
		if strings.HasPrefix(other, name+" ") {
			return true
		}
	}
	return false
}
