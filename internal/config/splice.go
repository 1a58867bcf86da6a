package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	jsontext "mcp-code-exec-harness/internal/catalog/schema"
)

// This file changes the text of a document. What it does is verified afterwards (document.verify), so that an unusual
// layout leads to an error and never to a damaged file.

// offset turns the position of a token into bytes.
func (d *document) offset(p *token.Position) int {
	at := d.line(p.Line)
	for range p.Column - 1 {
		_, n := utf8.DecodeRuneInString(d.text[at:])
		at += n
	}
	return at
}

// line returns where a line begins, counted from 1.
func (d *document) line(n int) int {
	at := 0
	for range n - 1 {
		end := strings.IndexByte(d.text[at:], '\n')
		if end < 0 {
			return len(d.text)
		}
		at += end + 1
	}
	return at
}

func (d *document) splice(from, to int, text string) { d.text = d.text[:from] + text + d.text[to:] }

// add puts a new server behind the others.
func (d *document) add(s *MCPServer) error {
	switch m := d.mapping(); {
	case d.root != nil && d.root.IsFlowStyle && d.servers == nil:
		d.addFlow(d.root, `"mcpServers": {`+quote(s.Name)+": "+flowEntry(s)+"}")
	case d.servers == nil:
		d.addSection(s)
	case m != nil && m.IsFlowStyle:
		d.addFlow(m, quote(s.Name)+": "+flowEntry(s))
	case m != nil:
		last := m.Values[len(m.Values)-1]
		_, end := d.blockRange(last)
		if end == len(d.text) && !strings.HasSuffix(d.text, "\n") {
			d.splice(end, end, d.newline)
			end = len(d.text)
		}
		d.splice(end, end, blockEntry(s, d.indent(m.Values[0]), d.newline))
	default:
		return d.addFirst(s)
	}
	return nil
}

// addSection appends mcpServers to the file.
func (d *document) addSection(s *MCPServer) {
	gap := ""
	if d.text != "" {
		if !strings.HasSuffix(d.text, "\n") {
			gap = d.newline
		}
		gap += d.newline
	}
	d.text += gap + "mcpServers:" + d.newline + blockEntry(s, "  ", d.newline)
}

// addFirst adds to "mcpServers:" with nothing behind it.
func (d *document) addFirst(s *MCPServer) error {
	n, ok := d.servers.Value.(*ast.NullNode)
	if !ok || d.root.IsFlowStyle {
		return errByHand
	}
	key := d.servers.Key.GetToken().Position
	from := d.line(key.Line)
	end := d.line(key.Line + 1)
	if line := d.text[from:end]; n.GetToken().Position.Line == key.Line {
		// A null that is written out: take it away.
		for _, word := range [...]string{"null", "Null", "NULL", "~"} {
			head, tail, found := strings.Cut(line, ": "+word)
			if found && strings.TrimSpace(head) == "mcpServers" {
				d.splice(from, end, head+":"+tail)
				end = d.line(key.Line + 1)
				break
			}
		}
	}
	if !strings.HasSuffix(d.text[:end], "\n") {
		d.splice(end, end, d.newline)
		end += len(d.newline)
	}
	d.splice(end, end, blockEntry(s, d.indent(d.servers)+"  ", d.newline))
	return nil
}

// addFlow puts a member before the closing brace of a mapping in braces.
func (d *document) addFlow(m *ast.MappingNode, text string) {
	end := d.offset(m.End.Position)
	at := len(strings.TrimRight(d.text[:end], " \t\r\n"))
	last := d.text[at-1]
	if len(m.Values) > 0 {
		first := m.Values[0].Key.GetToken().Position
		gap := " "
		if start := d.offset(m.Start.Position); strings.Contains(d.text[start:d.offset(first)], "\n") {
			gap = d.newline + d.text[d.line(first.Line):d.offset(first)]
		}
		if last != ',' {
			text = "," + gap + text
		} else {
			text = gap + text
		}
	}
	d.splice(at, at, text)
}

// replace writes a server over an entry.
func (d *document) replace(v *ast.MappingValueNode, s *MCPServer) {
	if m := d.mapping(); !m.IsFlowStyle {
		from, to := d.blockRange(v)
		d.splice(from, to, blockEntry(s, d.indent(v), d.newline))
		return
	}
	from, to, _ := d.flowRange(v)
	d.splice(from, to, quote(s.Name)+": "+flowEntry(s))
}

func (d *document) remove(v *ast.MappingValueNode) {
	m := d.mapping()
	if !m.IsFlowStyle {
		from, to := d.blockRange(v)
		d.splice(from, to, "")
		return
	}
	from, to, comma := d.flowRange(v)
	switch {
	case comma: // with the comma and the space behind it
		to++
		to += len(d.text[to:]) - len(strings.TrimLeft(d.text[to:], " \t\r\n"))
	case v != m.Values[0]: // with the comma before it
		from = strings.LastIndexByte(d.text[:from], ',')
	}
	d.splice(from, to, "")
}

// indent returns what stands before the key of an entry in a block.
func (d *document) indent(v *ast.MappingValueNode) string {
	key := v.Key.GetToken().Position
	return d.text[d.line(key.Line):d.offset(key)]
}

// blockRange returns the lines of an entry: from its key to the last line that is indented deeper or closes its
// brace. Empty lines and comments behind that belong to what follows.
func (d *document) blockRange(v *ast.MappingValueNode) (from, to int) {
	key := v.Key.GetToken().Position
	last := key.Line
	if m, ok := v.Value.(*ast.MappingNode); ok && m.IsFlowStyle {
		last = m.End.Position.Line
	}
	from, to = d.line(key.Line), d.line(last+1)
	indent := len(d.indent(v))
	for at := to; at < len(d.text); {
		line, _, _ := strings.Cut(d.text[at:], "\n")
		next := min(at+len(line)+1, len(d.text))
		content := strings.TrimLeft(strings.TrimRight(line, "\r"), " ")
		deeper := len(strings.TrimRight(line, "\r"))-len(content) > indent
		if content != "" && !deeper && content[0] != '#' {
			break
		}
		if content != "" && deeper {
			to = next
		}
		at = next
	}
	return from, to
}

// flowRange returns the bytes of an entry in braces, and whether a comma follows.
func (d *document) flowRange(v *ast.MappingValueNode) (from, to int, comma bool) {
	t := v.Key.GetToken()
	from = d.offset(t.Position)
	depth := 0
	for t = t.Next; t != nil; t = t.Next {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		}
		if depth < 0 || depth == 0 && t.Type == token.CollectEntryType {
			to = d.offset(t.Position)
			return from, from + len(strings.TrimRight(d.text[from:to], " \t\r\n")), depth == 0
		}
	}
	return from, len(d.text), false
}

// pair is a key of a server and its value.
type pair struct {
	name  string
	value any
}

// pairs lists what is written of a server: what differs from the defaults.
func pairs(s *MCPServer) []pair {
	var out []pair
	v := reflect.ValueOf(*s)
	for _, k := range keysOf(v.Type(), "") {
		f := v.FieldByIndex(k.index)
		if k.name == "enabled" || f.IsZero() || k.composite() && f.Len() == 0 {
			continue
		}
		if k.value != "" && k.typ == durationType && f.Int() == k.bound(k.value) {
			continue
		}
		out = append(out, pair{k.name, f.Interface()})
	}
	return out
}

// flowEntry writes a server in braces, as JSON.
func flowEntry(s *MCPServer) string {
	var parts []string
	for _, p := range pairs(s) {
		parts = append(parts, quote(p.name)+": "+flowValue(p.value, quote))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// flowValue writes a value in one line; text writes its texts.
func flowValue(value any, text func(string) string) string {
	var parts []string
	switch x := value.(type) {
	case []string:
		for _, item := range x {
			parts = append(parts, text(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]string:
		for _, name := range slices.Sorted(maps.Keys(x)) {
			parts = append(parts, text(name)+": "+text(x[name]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case string:
		return text(x)
	case time.Duration:
		return text(formatDuration(x))
	}
	return "true" // the only other type is a bool that is not zero
}

// blockEntry writes a server in lines.
func blockEntry(s *MCPServer, indent, newline string) string {
	var b strings.Builder
	line := func(parts ...string) { b.WriteString(indent + strings.Join(parts, "") + newline) }
	fields := pairs(s)
	if len(fields) == 0 {
		line(plainOrQuoted(s.Name), ": {}")
		return b.String()
	}
	line(plainOrQuoted(s.Name), ":")
	for _, p := range fields {
		texts, isMap := p.value.(map[string]string)
		if !isMap {
			line("  ", p.name, ": ", flowValue(p.value, plainOrQuoted))
			continue
		}
		line("  ", p.name, ":")
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			line("    ", plainOrQuoted(name), ": ", plainOrQuoted(texts[name]))
		}
	}
	return b.String()
}

// plainOrQuoted writes a text without quotes where every YAML reader takes it for the same text.
func plainOrQuoted(s string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	switch strings.ToLower(s) {
	case "yes", "no", "on", "off", "y", "n", "nan", "inf", "-inf": // in YAML 1.1 and other readers
		return quote(s)
	}
	if strings.Trim(s, letters+"0123456789-_./+=@:") != "" || !strings.ContainsAny(s, letters) || token.IsNeedQuoted(s) ||
		strings.HasPrefix(s, "---") || strings.HasPrefix(s, "...") || strings.HasSuffix(s, ":") {
		return quote(s)
	}
	return s
}

// quote writes a text in double quotes, as JSON, which YAML reads the same.
func quote(s string) string { return jsontext.Quote(s) }
