package ident

import (
	"slices"
	"testing"
	"unicode"

	"github.com/evanw/esbuild/pkg/api"
)

func TestCamel(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"get-sum": "getSum", "get_sum": "getSum", "getSum": "getSum", "GetSum": "getSum", "GET_SUM": "getSum", "get sum": "getSum",
		"HTTPRequest": "httpRequest", "listHTTPServers": "listHTTPServers", "list_HTTPServers": "listHttpServers",
		"API-get-user": "apiGetUser", "n8n_list": "n8nList", "v2Api": "v2Api", "2fa_enable": "_2faEnable", "foo.bar/baz": "fooBarBaz",
		"delete": "delete_", "default": "default_", "then": "then_", "toJSON": "toJSON_", "to_json": "toJson", "inspect": "inspect_",
		"": "tool", "---": "tool", "🚀": "tool", "größe_ändern": "größeÄndern", "日本": "日本", "_private": "private_", "_hidden": "hidden", "$x": "x",
		"__proto__": "proto", "constructor": "constructor_", "a": "a", "A": "a", "a1b2": "a1b2", "x__y": "xY",
	} {
		if got := Camel(name); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}

func TestPascal(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"get-sum": "GetSum", "Customer": "Customer", "_2faEnable": "_2faEnable", "": "Type", "promise": "Promise_", "delete_": "Delete",
	} {
		if got := Pascal(name); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"get-sum", "get_sum", "getSum", "GetSum", "get.sum", "GET SUM"} {
		if got := Fold(name); got != "getsum" {
			t.Errorf("%q: got %s", name, got)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"list_HTTPServers2": {"list", "HTTP", "Servers2"}, "aBC": {"a", "BC"}, "ABc": {"A", "Bc"}, "": nil, "--": nil, "a1b": {"a1b"},
	} {
		if got := Words(name); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// FuzzCamel: for any name, the identifier can be declared and exported in module code.
func FuzzCamel(f *testing.F) {
	for _, name := range []string{"get-sum", "delete", "2fa", "größe", "🚀", "a\u0301", "\u2e2fx", "\xff", "ǅ", "ﬁ", "İx_ı", "ªb", "𝒳y"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		id := Camel(name)
		for i, r := range id {
			if !unicode.IsLetter(r) && r != '_' && (i == 0 || !unicode.IsDigit(r)) {
				t.Fatalf("%q gives %q", name, id)
			}
		}
		code := "export function " + id + "() {}\nexport type " + Pascal(name) + " = 1"
		result := api.Transform(code, api.TransformOptions{Loader: api.LoaderTS, Format: api.FormatESModule})
		if len(result.Errors) > 0 {
			t.Errorf("%q gives %q: %s", name, id, result.Errors[0].Text)
		}
	})
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"same", "same", 0},
		{"kitten", "sitting", 3},
		{"serach", "search", 1}, // two neighbouring letters are swapped
		{"größe", "grösse", 2},
		{"ca", "abc", 3}, // letters that were swapped are not edited again
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			if got := Distance([]rune(pair[0]), []rune(pair[1])); got != c.want {
				t.Errorf("from %q to %q: got %d, want %d", pair[0], pair[1], got, c.want)
			}
		}
	}
}
