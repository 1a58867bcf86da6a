package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// row returns the row for a key in the tables of the documentation.
func row(k key, name string) string {
	value := strings.ReplaceAll(k.value, "{state}", "./data")
	if value != "" {
		value = "`" + value + "`"
	}
	text := k.doc
	if k.min == "0" {
		k.min = ""
	}
	switch {
	case len(k.oneOf) > 0:
		text += " One of " + strings.Join(k.oneOf, ", ") + "."
	case k.min != "" && k.max != "":
		text += " From " + k.min + " to " + k.max + "."
	case k.min != "":
		text += " At least " + k.min + "."
	case k.max != "":
		text += " At most " + k.max + "."
	}
	for _, alias := range k.names[1:] {
		text += " Also `" + alias + "`."
	}
	if k.required {
		text += " Required."
	}
	return "| `" + name + "` | " + value + " | " + text + " |"
}

// rowsOf returns the rows for keys and for the keys in their groups.
func rowsOf(parent string, keys []key) (rows []string) {
	for _, k := range keys {
		name := parent + "." + k.name()
		if k.typ.Kind() == reflect.Pointer {
			k = key{names: k.names, doc: k.doc, dst: k.elem().dst, typ: k.typ.Elem()}
		}
		rows = append(rows, row(k, name))
		switch {
		case k.isGroup():
			rows = append(rows, rowsOf(name, k.members())...)
		case k.typ.Kind() == reflect.Map && k.typ.Elem().Kind() == reflect.Struct:
			rows = append(rows, rowsOf(name+".PATH", k.elem().members())...)
		}
	}
	return rows
}

// variableRow returns the row for a variable of the original system.
func variableRow(o original) string {
	text := "`" + o.key + "`"
	switch {
	case o.part != "":
		text = "the " + o.part + " of " + text
	case o.on != "":
		text += " is `" + o.on + "` if it is true"
	case o.per > 0:
		text += fmt.Sprintf(", in %s of %.0f", unitNames[o.unit], o.per)
	case o.unit != "":
		text += ", in " + unitNames[o.unit]
	case o.provider != "":
		text += ", for " + o.provider
	case o.loose:
		text += "; ignored if it is neither true nor false"
	case o.patterns:
		text = "a list for `pii.custom`, with the names `CUSTOM_1`, `CUSTOM_2`, …"
	case o.guest:
		text = "programs read it as `env." + o.name + "`"
	case o.server != "" && strings.HasPrefix(o.name, "MCP_"):
		text = "the server `" + strings.ToLower(o.server) + "`"
	case o.server != "":
		text = "in the environment of the server `" + strings.ToLower(o.server) + "`"
	case o.key == "":
		text = "no effect: " + o.note
		if len(o.fine) > 0 {
			text += " (no warning for " + strings.Join(o.fine, ", ") + ")"
		}
	}
	return "| `" + o.name + "` | " + text + " |"
}

// TestDocumentation checks that the documentation lists exactly the keys and variables of the code, with their descriptions.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/CONFIGURATION.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, k := range leaves(configKeys(&Config{})) {
		elem := k.typ
		switch {
		case k.typ == serversType:
			elem = reflect.TypeFor[MCPServer]()
		case k.typ.Kind() == reflect.Map:
			elem = k.typ.Elem()
			fallthrough
		default:
			want = append(want, row(k, k.path))
		}
		if k.isRules() {
			want = append(want, rowsOf(k.path+".N", k.elem().members())...)
		}
		if elem.Kind() == reflect.Struct {
			for _, inner := range keysOf(reflect.New(elem).Elem(), "") {
				want = append(want, row(inner, k.path+".NAME."+inner.name()))
				if inner.typ.Kind() == reflect.Pointer {
					want = append(want, rowsOf(k.path+".NAME."+inner.name(), inner.elem().members())...)
				}
			}
		}
	}
	for _, o := range originals {
		want = append(want, variableRow(o))
	}
	var got []string
	for line := range strings.SplitSeq(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n") {
		if strings.HasPrefix(line, "| `") {
			got = append(got, line)
		}
	}
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			t.Fatalf("the next row must be\n%s", want[i])
		case i >= len(want):
			t.Fatalf("no such key or variable\n%s", got[i])
		case got[i] != want[i]:
			t.Fatalf("row %d is\n%s\nwant\n%s", i+1, got[i], want[i])
		}
	}
}
