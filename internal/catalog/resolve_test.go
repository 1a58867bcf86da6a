package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func named(server string, tools ...string) Server {
	s := Server{Name: server}
	for _, t := range tools {
		s.Tools = append(s.Tools, Tool{Name: t})
	}
	return s
}

func catalogOf(servers ...Server) *Catalog {
	c := New()
	for _, s := range servers {
		c.SetServer(s)
	}
	return c
}

// TestHeld: any form of a held tool's name gives a HeldError, and a held tool hides no offered tool.
func TestHeld(t *testing.T) {
	t.Parallel()
	up := named("up", "send_mail", "read")
	up.Held = []string{"", "send-mail", "drop-all"}
	c := catalogOf(up, named("other", "x"))
	for name, want := range map[string]string{"up__send_mail": "send_mail", "up__sendMail": "send_mail", "up__read": "read"} {
		if tool, err := c.Resolve(name); err != nil || tool.Name != want {
			t.Errorf("%s: %v, %v", name, tool, err)
		}
	}
	for _, in := range [][2]string{{"", "up__send-mail"}, {"up", "send-mail"}, {"", "up__drop-all"}, {"", "UP__dropAll"}, {"up", "dropAll"}, {"Up", "drop_all"}} {
		_, err := c.ResolveIn(in[0], in[1])
		var held *HeldError
		if !errors.As(err, &held) || held.Server != "up" || !strings.Contains(err.Error(), "A person reviews it") {
			t.Errorf("%q: %v", in, err)
		}
	}
	for _, name := range []string{"up__", "up", "up__none", "other__drop_all"} {
		var unknown *UnknownError
		if _, err := c.Resolve(name); !errors.As(err, &unknown) || strings.Contains(fmt.Sprint(unknown.Closest), "drop") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	c := catalogOf(
		named("crm", "search", "get-sum", "delete", "a__b", "2fa", "foo.bar/baz", "größe", "getsum2", "deep_get", "deepGet"),
		named("cr", "msearch"),
		named("my-server", "get_sum"),
		named("a__b", "c"),
		named("a", "d"),
		named("dup-a", "x"), named("dup_a", "x"),
		named("🚀", "🚀"),
	)
	for name, want := range map[string]string{
		"crm__search":           "crm__search",
		"CRM__Search":           "crm__search",
		"crm__msearch":          "", // the name must not be taken for cr__msearch
		"cr__msearch":           "cr__msearch",
		"crm__getSum":           "crm__get-sum",
		"crm__get_sum":          "crm__get-sum",
		"crm__GET-SUM":          "crm__get-sum",
		"crm.get_sum":           "crm__get-sum",
		"crm_get_sum":           "crm__get-sum",
		"crm__delete_":          "crm__delete",
		"crm__a__b":             "crm__a__b",
		"crm__aB":               "crm__a__b",
		"crm___2fa":             "crm__2fa",
		"crm__fooBarBaz":        "crm__foo.bar/baz",
		"crm__foo_bar_baz":      "crm__foo.bar/baz",
		"crm__GRÖSSE":           "",
		"crm__Größe":            "crm__größe",
		"crm__deepGet":          "crm__deepGet",
		"crm__deep_get":         "crm__deep_get",
		"my-server__get_sum":    "my-server__get_sum",
		"myServer__getSum":      "my-server__get_sum",
		"my_server__get-sum":    "my-server__get_sum",
		"a__b__c":               "a__b__c",
		"a__d":                  "a__d",
		"dup-a__x":              "dup-a__x",
		"dup_a__x":              "dup_a__x",
		"dupA1__x":              "dup-a__x",
		"dupA2__x":              "dup_a__x",
		"🚀__🚀":                  "🚀__🚀",
		"":                      "",
		"__":                    "",
		"search":                "",
		"crm__":                 "",
		"crm__nothing":          "",
		strings.Repeat("_", 99): "",
	} {
		got, err := c.Resolve(name)
		switch {
		case want == "":
			var unknown *UnknownError
			if name != "crm__msearch" && !errors.As(err, &unknown) {
				t.Errorf("%q: got %v, %v, want an unknown tool", name, got, err)
			}
		case err != nil:
			t.Errorf("%q: %v, want %s", name, err, want)
		case got.FullName() != want:
			t.Errorf("%q: got %s, want %s", name, got.FullName(), want)
		}
	}
	for _, name := range c.List() {
		if got, err := c.Resolve(name); err != nil || got.FullName() != name {
			t.Errorf("the exact name %q gives %v, %v", name, got, err)
		}
	}
}

func TestResolveAmbiguous(t *testing.T) {
	t.Parallel()
	c := catalogOf(
		named("s", "get-sum", "get_sum"),
		named("a", "b__c"), named("a__b", "c"),
		named("my-crm", "x"), named("my_crm", "x"),
	)
	for name, want := range map[string][]string{
		"s__getSum": {"s__get-sum", "s__get_sum"},
		"a__b__c":   {`"b__c" of server "a", "c" of server "a__b"`},
		"myCrm__x":  {"my-crm__x", "my_crm__x"},
	} {
		_, err := c.Resolve(name)
		var ambiguous *AmbiguousError
		if !errors.As(err, &ambiguous) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, ambiguous.Candidates); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	// The tools can still be found by server and name.
	for _, parts := range [][2]string{{"a", "b__c"}, {"a__b", "c"}, {"s", "getSum1"}, {"s", "getSum2"}, {"myCrm1", "x"}} {
		if _, err := c.ResolveIn(parts[0], parts[1]); err != nil {
			t.Errorf("%v: %v", parts, err)
		}
	}
	if _, err := c.ResolveServer("myCrm"); !errors.As(err, new(*AmbiguousError)) {
		t.Errorf("server myCrm: %v", err)
	}
	want := []string{
		`server "s": several names come to getSum: "get-sum" is getSum1, "get_sum" is getSum2`,
		`servers: several names come to myCrm: "my-crm" is myCrm1, "my_crm" is myCrm2`,
		`tool name "a__b__c" is not unique: "b__c" of server "a", "c" of server "a__b"`,
	}
	if diff := cmp.Diff(want, c.Problems()); diff != "" {
		t.Error(diff)
	}
}

func TestCollidingNames(t *testing.T) {
	t.Parallel()
	tools := []string{"get_sum", "getSum", "get-sum", "getSum2", "delete", "delete_", "🚀", "--", "list"}
	first := catalogOf(named("s", tools...))
	slices.Reverse(tools)
	second := catalogOf(named("s", append(tools, "list")...))
	want := map[string]string{
		"get_sum": "getSum4", "getSum": "getSum", "get-sum": "getSum3", "getSum2": "getSum2", "delete": "delete_2",
		"delete_": "delete_", "🚀": "tool2", "--": "tool1", "list": "list",
	}
	for _, c := range []*Catalog{first, second} {
		got := map[string]string{}
		for _, tool := range c.Tools() {
			got[tool.Name] = tool.Function()
			for _, name := range []string{tool.Name, tool.Function()} {
				if found, err := c.ResolveIn("s", name); err != nil || found != tool {
					t.Errorf("%s of %s: got %v, %v", name, tool.Name, found, err)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if p := second.Problems(); !slices.Contains(p, `server "s" lists tool "list" twice; the first is used`) {
		t.Errorf("problems: %v", p)
	}
}

func TestUnknownError(t *testing.T) {
	t.Parallel()
	c := recallCatalog(t, 300)
	for name, want := range map[string]string{
		"crm__serch_accounts":  "crm__search_accounts",
		"crm__find_accounts":   "crm__search_accounts",
		"mail__send_email":     "gmail__send_email",
		"mcp__slack__post_msg": "slack__post_message",
		"github_createIssues":  "github__create_issue",
	} {
		_, err := c.Resolve(name)
		var unknown *UnknownError
		if !errors.As(err, &unknown) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(unknown.Closest) != 3 || !slices.Contains(unknown.Closest, want) {
			t.Errorf("%s: closest are %v, want %s among three", name, unknown.Closest, want)
		}
		words := "Tool not found: " + name + ". Use list_mcp_tools() to see available tools. Closest: " +
			strings.Join(unknown.Closest, ", ")
		if err.Error() != words {
			t.Errorf("got  %s\nwant %s", err, words)
		}
	}
	_, err := New().Resolve("a\x1b[31m\n" + strings.Repeat("x", 1000))
	if msg := err.Error(); strings.ContainsAny(msg, "\n\x1b") || len(msg) > 250 || strings.Contains(msg, "Closest") {
		t.Errorf("message: %q", msg)
	}
	_, err = c.ResolveIn("kubernets", "list_pods")
	if unknown := (*UnknownError)(nil); !errors.As(err, &unknown) || unknown.Closest[0] != "kubernetes" {
		t.Errorf("server: %v", err)
	}
}

func FuzzResolve(f *testing.F) {
	f.Add("crm", "search", "crm__search")
	f.Add("a__b", "", "a__b__")
	f.Add("_", "", "____")
	f.Add("🚀", "\xff", "__")
	f.Fuzz(func(t *testing.T, server, tool, name string) {
		if server == "" || name == "" {
			t.Skip("every server has a name")
		}
		c := catalogOf(named(server, tool, tool+"_", name), named(name, tool), named("crm", "search"))
		_, _ = c.Resolve(name)
		_, _ = c.ResolveIn(server, name)
		_, _ = c.ResolveServer(name)
		functions := map[string]bool{}
		for _, one := range c.Tools() {
			if functions[one.Server+"\x00"+one.Function()] {
				t.Errorf("two tools of %q are %s", one.Server, one.Function())
			}
			functions[one.Server+"\x00"+one.Function()] = true
			if got, err := c.ResolveIn(one.Server, one.Name); err != nil || got != one {
				t.Errorf("the exact %q of %q gives %v, %v", one.Name, one.Server, got, err)
			}
			if got, err := c.ResolveIn(one.Server, one.Function()); err != nil || got != one && got.Name != one.Function() {
				t.Errorf("the function %q of %q gives %v, %v", one.Function(), one.Server, got, err)
			}
		}
	})
}

// TestLongNames: the work for a name grows in proportion to its length, and a name above the maximum length is refused at once.
func TestLongNames(t *testing.T) {
	t.Parallel()
	c := catalogOf(named("mock", "echo"))
	long := "mock" + strings.Repeat("_", MaxName) + "echo"
	for name, resolve := range map[string]func() error{
		"tool":    func() error { _, err := c.Resolve(long); return err },
		"in":      func() error { _, err := c.ResolveIn("mock", long); return err },
		"details": func() error { _, err := c.Details(long); return err },
		"server":  func() error { _, err := c.ResolveServer(long); return err },
	} {
		if err := resolve(); err == nil || !strings.Contains(err.Error(), "at most 1024 bytes") || len(err.Error()) > 300 {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, n := range []int{2, 500, 1000} {
		name := "mock" + strings.Repeat("_", n) + "echo"
		folded := len(c.now.Load().folded("mockecho"))
		if tool, err := c.Resolve(name); err != nil || tool.Name != "echo" || folded != 1 {
			t.Errorf("%d: got %v, %v", n, tool, err)
		}
	}
}

// BenchmarkLongName: when each "__" was tried as a separator, a name of 60,000 characters took seconds; now 1,000 characters take microseconds.
func BenchmarkLongName(b *testing.B) {
	c := catalogOf(named("mock", "echo"))
	name := "mock" + strings.Repeat("_", 1000) + "echo"
	for b.Loop() {
		if _, err := c.Resolve(name); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWrongName looks for a name that no tool of a large catalog has.
func BenchmarkWrongName(b *testing.B) {
	c := New()
	for i := range 65 {
		s := Server{Name: fmt.Sprintf("server_%d", i)}
		for j := range 200 {
			s.Tools = append(s.Tools, Tool{Name: fmt.Sprintf("list_open_items_of_kind_%d", i*j)})
		}
		c.SetServer(s)
	}
	for b.Loop() {
		if _, err := c.Resolve("server_7__list_items_of_kinds"); err == nil {
			b.Fatal("found")
		}
	}
}

// TestManyTheSame: if many tools have the same folded name, only a bounded number is compared and listed.
func TestManyTheSame(t *testing.T) {
	t.Parallel()
	s := Server{Name: "s"}
	for i := range 1000 {
		s.Tools = append(s.Tools, Tool{Name: "a" + strings.Repeat("_", i)})
	}
	c := catalogOf(s)
	if n := len(c.now.Load().folded("sa")); n != maxCandidates {
		t.Errorf("%d candidates", n)
	}
	_, err := c.Resolve("S__A")
	if err == nil || !strings.HasSuffix(err.Error(), "and 90 more. Write the exact name.") || len(err.Error()) > 400 {
		t.Errorf("got %v", err)
	}
	if tool, err := c.Resolve("s__a___"); err != nil || tool.Name != "a___" {
		t.Errorf("the exact name: %v", err)
	}
}

// TestUnprintableNames: a server's texts can neither forge lines nor change the reading direction of the terminal. A tool whose name could do so is left
// out.
func TestUnprintableNames(t *testing.T) {
	t.Parallel()
	s := Server{Name: "s", Instructions: "one\u202etwo\x1b[31m", Tools: []Tool{
		{Name: "ok", Title: "a\nb\u200f", Description: "first\nsecond\r\x1b[2J\u200f\U000e0041", Annotations: Annotations{Title: "x\ny"}},
	}}
	for _, name := range []string{"a\nb__forged", "a\x1b[31m", "a\u200fb", "a\u202eb", "a\u200bb", "a\u2028b", "a\xffb", strings.Repeat("x", MaxName+1)} {
		s.Tools = append(s.Tools, Tool{Name: name})
	}
	c := catalogOf(s)
	if diff := cmp.Diff([]string{"s__ok"}, c.List()); diff != "" {
		t.Error(diff)
	}
	if n := len(c.Problems()); n != len(s.Tools)-1 {
		t.Errorf("%d problems: %q", n, c.Problems())
	}
	for _, p := range c.Problems() {
		if strings.ContainsAny(p, "\n\x1b\u200f\u202e\u2028") || len(p) > 300 {
			t.Errorf("problem %q", p)
		}
	}
	d, err := c.Details("s__ok")
	if err != nil {
		t.Fatal(err)
	}
	got := []string{d.Title, d.Description, d.Instructions, d.Annotations.Title}
	if diff := cmp.Diff([]string{"a b", "first\nsecond[2J", "onetwo[31m", "x y"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestToolCalledIndex: a tool with the name index gets another identifier, because index is the module of its server.
func TestToolCalledIndex(t *testing.T) {
	t.Parallel()
	c := catalogOf(named("s", "index", "other"))
	if diff := cmp.Diff([]string{"index_", "other"}, c.Names()["s"]); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"index", "index_"} {
		if tool, err := c.ResolveIn("s", name); err != nil || tool.Name != "index" {
			t.Errorf("%s: %v, %v", name, tool, err)
		}
	}
}
