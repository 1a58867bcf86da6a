package cli_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// commandLine matches a line of help that shows a command to type.
var commandLine = regexp.MustCompile(`(?m)^ {4,}((?:.* )?harness .*)$`)

// TestHelp reads the help of every command: it shows an example, and the flags in the example exist.
func TestHelp(t *testing.T) {
	t.Parallel()
	f := setup(t)
	commands := [][]string{
		nil,
		{"init"},
		{"exec"},
		{"run"},
		{"eval"},
		{"serve"},
		{"mcp"},
		{"tasks"},
		{"tasks", "list"},
		{"tasks", "show"},
		{"tasks", "cancel"},
		{"tasks", "resume"},
		{"schedules"},
		{"schedules", "list"},
		{"schedules", "add"},
		{"schedules", "rm"},
		{"usage"},
		{"sessions"},
		{"sessions", "list"},
		{"sessions", "show"},
		{"sessions", "delete"},
		{"files"},
		{"files", "ls"},
		{"files", "get"},
		{"files", "put"},
		{"files", "rm"},
		{"keys"},
		{"keys", "create"},
		{"keys", "list"},
		{"keys", "revoke"},
		{"token"},
		{"open"},
		{"demo"},
		{"tools"},
		{"tools", "list"},
		{"tools", "search"},
		{"tools", "show"},
		{"tools", "types"},
		{"tools", "call"},
		{"servers"},
		{"servers", "list"},
		{"servers", "add"},
		{"servers", "import"},
		{"servers", "remove"},
		{"servers", "enable"},
		{"servers", "disable"},
		{"servers", "test"},
		{"servers", "restart"},
		{"servers", "logs"},
		{"servers", "review"},
		{"servers", "login"},
		{"servers", "logout"},
		{"skills"},
		{"skills", "list"},
		{"skills", "show"},
		{"skills", "new"},
		{"skills", "test"},
		{"skills", "versions"},
		{"skills", "diff"},
		{"skills", "restore"},
		{"skills", "promote"},
		{"skills", "demote"},
		{"skills", "export"},
		{"skills", "remove"},
		{"skills", "add"},
		{"skills", "search"},
		{"skills", "review"},
		{"skills", "share"},
		{"skills", "unshare"},
		{"skills", "shares"},
		{"skills", "propose"},
		{"runs"},
		{"runs", "list"},
		{"runs", "show"},
		{"runs", "journal"},
		{"runs", "replay"},
		{"runs", "resume"},
		{"runs", "doubts"},
		{"runs", "settle"},
		{"sandbox"},
		{"sandbox", "build"},
		{"sandbox", "list"},
		{"policy"},
		{"policy", "show"},
		{"policy", "test"},
		{"policy", "destinations"},
		{"policy", "simulate"},
		{"policy", "confirm"},
		{"attack"},
		{"trust"},
		{"untrust"},
		{"pii"},
		{"pii", "scan"},
		{"audit"},
		{"audit", "verify"},
		{"approvals"},
		{"approvals", "list"},
		{"approvals", "show"},
		{"approvals", "approve"},
		{"approvals", "deny"},
		{"approvals", "setup"},
		{"config"},
		{"config", "show"},
		{"doctor"},
		{"backup"},
		{"restore"},
		{"store"},
		{"store", "copy"},
		{"bench"},
		{"completion"},
		{"man"},
		{"version"},
	}
	global := f.run("--help").want(0).stdout
	for _, command := range commands {
		r := f.run(append(slices.Clone(command), "--help")...).want(0)
		if r.stderr != "" || !strings.Contains(r.stdout, "Example") {
			t.Errorf("%v: no example in the help: %s%s", command, r.stdout, r.stderr)
		}
		// Only the global help describes the flags that every command has. The help of a command only names them.
		for _, flag := range []string{"--config", "--json", "--jq", "--log-level", "--help"} {
			if !strings.Contains(r.stdout, flag) || strings.Contains(r.stdout, "  "+flag+" ") && command != nil {
				t.Errorf("%v: no %s in the help, or its description", command, flag)
			}
		}
		if len(command) == 1 && strings.Contains(r.stdout, "\nPrograms and tasks:") {
			t.Errorf("%v: its commands are headed as all are", command)
		}
		if n := strings.Count(r.stdout, "Example"); n != 1 {
			t.Errorf("%v: the help has %d lists of examples", command, n)
		}
		examples := commandLine.FindAllStringSubmatch(r.stdout, -1)
		if len(examples) == 0 {
			t.Errorf("%v: the example is no command: %s", command, r.stdout)
		}
		for _, example := range examples {
			for _, flag := range regexp.MustCompile(`(?:^| )(--[a-z-]+)`).FindAllStringSubmatch(strings.Split(example[1], " -- ")[0], -1) {
				if !strings.Contains(r.stdout+global, "  "+flag[1]) && !strings.Contains(r.stdout, ", "+flag[1]) && command != nil {
					t.Errorf("%v: the example %q has a flag that does not exist", command, example[1])
				}
			}
		}
		var help struct{ Help string }
		f.run(append(slices.Clone(command), "--help", "--json")...).want(0).value(&help)
		if help.Help != r.stdout {
			t.Errorf("%v: --help --json gives other help", command)
		}
	}
	// The list of commands above is complete: the help lists no other command.
	listed := 0
	for _, command := range commands {
		text := f.run(append([]string{"help"}, command...)...).want(0).stdout
		for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+(?: [a-z]+)?)  +[A-Z]`).FindAllStringSubmatch(text, -1) {
			listed++
			if !slices.ContainsFunc(commands, func(c []string) bool { return slices.Equal(c, strings.Fields(m[1])) }) {
				t.Errorf("command %q is not tested", m[1])
			}
		}
	}
	if listed != len(commands)-1 {
		t.Errorf("the help lists %d commands, want %d", listed, len(commands)-1)
	}
	if _, err := os.Stat(f.dir + "/harness.yaml"); err == nil {
		t.Error("asking for help wrote a file")
	}
}
