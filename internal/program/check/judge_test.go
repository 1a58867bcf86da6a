package check_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	mark = regexp.MustCompile(`⟦(.*?)→(.*?)⟧`)
	call = regexp.MustCompile(`@(\w+)\.(\w+)\(`)
)

// ways are the forms in which a program calls a tool that is written as @server.tool(.
var ways = map[string]func(server, tool string) string{
	"tools":     func(server, tool string) string { return "tools." + server + "." + tool + "(" },
	"brackets":  func(server, tool string) string { return "tools['" + server + "']['" + tool + "'](" },
	"full name": func(server, tool string) string { return "callMCPTool('" + server + "__" + tool + "', " },
	"import":    func(server, tool string) string { return server + "." + camel(tool) + "(" },
}

// camel returns the name of a tool's function in the module of its server.
func camel(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// written returns a program with its calls of tools in one form.
func written(code, way string) string {
	imports := ""
	code = call.ReplaceAllStringFunc(code, func(text string) string {
		part := call.FindStringSubmatch(text)
		if line := "import * as " + part[1] + " from './servers/" + part[1] + "'; "; way == "import" && !strings.Contains(imports, line) {
			imports += line
		}
		return ways[way](part[1], part[2])
	})
	return imports + code
}

// TestJudge checks programs for servers that were not used to write the check. In the programs of testdata/judge.txt, ⟦right→wrong⟧ marks where a
// mistake can be planted. At least 90 % of the planted mistakes are reported, on the right line and with the right name. Programs without a mistake get no
// report.
func TestJudge(t *testing.T) {
	t.Parallel()
	c := newCatalog(t, "testdata/judge.json")
	text, err := os.ReadFile("testdata/judge.txt")
	if err != nil {
		t.Fatal(err)
	}
	right, wrong, told := 0, 0, 0
	for _, marked := range strings.Split(string(text), "\n---\n") {
		for way := range ways {
			code := written(mark.ReplaceAllString(marked, "$1"), way)
			right++
			if got := mistakes(t, c, code); len(got) > 0 {
				t.Errorf("a right program (%s) is told %q:\n%s", way, got, code)
			}
			for i, m := range mark.FindAllStringSubmatchIndex(marked, -1) {
				n := 0
				code := written(mark.ReplaceAllStringFunc(marked, func(text string) string {
					n++
					part := mark.FindStringSubmatch(text)
					if n == i+1 {
						return part[2]
					}
					return part[1]
				}), way)
				line, name := 1+strings.Count(marked[:m[0]], "\n"), marked[m[2]:m[3]]
				wrong++
				got := mistakes(t, c, code)
				at := strings.Join(got, "\n")
				switch {
				case !strings.HasPrefix(at, fmt.Sprintf("%d:", line)):
					t.Logf("%s: %s instead of %s in line %d: told %q\n%s", way, marked[m[4]:m[5]], name, line, got, code)
				case regexp.MustCompile(`^\w+$`).MatchString(name) && regexp.MustCompile(`^[a-zA-Z]\w*$`).MatchString(name) && name != "true" && name != "id" &&
					!strings.Contains(folded(at), folded(name)):
					t.Logf("%s: %s instead of %s is told without the right name: %q", way, marked[m[4]:m[5]], name, got)
				default:
					told++
				}
			}
		}
	}
	t.Logf("%d right programs, %d of %d mistakes told", right, told, wrong)
	if right < 200 || wrong < 200 || told*100 < wrong*90 {
		t.Errorf("%d of %d mistakes are told, of %d programs", told, wrong, right)
	}
}

func folded(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }
