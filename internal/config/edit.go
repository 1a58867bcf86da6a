package config

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/trust"
)

// Editor changes configuration files, one process at a time. After a change by Editor, a new file is trusted, and a file that was trusted stays
// trusted, because the user made the change. A file that was not trusted stays untrusted.
type Editor struct {
	Trust *trust.Store // nil: trust is not recorded
}

// AddServer writes a server into the configuration file at path and creates the file if it does not exist. The values are written as the
// file needs them: ${VAR} is a placeholder, and a literal $ before { or $ must be $$. Only the name and the values that differ from the
// defaults are written. The rest of the file keeps every byte, including comments. The mode of the file stays, with one exception: if the
// server has env, headers or security, a file that everyone can access becomes private to its owner. If a server of the same name exists
// and replace is not set, the error matches fs.ErrExist.
func (ed Editor) AddServer(path string, s *MCPServer, replace bool) error {
	return ed.edit(fmt.Sprintf("add server %q to", s.Name), path, func(d *document) error {
		entry, err := checkedEntry(s)
		if err != nil {
			return err
		}
		if len(s.Env)+len(s.Headers)+len(s.Security) > 0 && d.mode&0o007 != 0 {
			d.mode &= 0o700
		}
		existing, ok := d.server(s.Name)
		if ok && !replace {
			return fmt.Errorf("it has a server of this name (%w); use --replace, or another name", fs.ErrExist)
		}
		for _, f := range d.servers().keys {
			if !ok && fold(f.name) == fold(s.Name) {
				return fmt.Errorf("programs cannot tell it from %q: case, - and _ do not count; use another name", f.name)
			}
		}
		if ok {
			d.replace(existing, s)
		} else {
			err = d.add(s)
		}
		if err == nil {
			err = d.verify(s.Name, entry)
		}
		if err != nil {
			return fmt.Errorf("%w; add this below mcpServers by hand:\n%s", err, blockEntry(s, "  ", "\n"))
		}
		return nil
	})
}

// RemoveServer deletes a server from the configuration file at path and keeps the comments around it. If the file has no such server, the
// error matches fs.ErrNotExist.
func (ed Editor) RemoveServer(path, name string) error {
	return ed.edit(fmt.Sprintf("remove server %q from", name), path, func(d *document) error {
		existing, ok := d.server(name)
		if !ok {
			if len(d.servers().keys) == 0 {
				return fmt.Errorf("it has no servers%w", missing{})
			}
			return fmt.Errorf("its servers are %s%w", strings.Join(d.servers().names(), ", "), missing{})
		}
		d.remove(existing)
		if err := d.verify(name, nil); err != nil {
			return fmt.Errorf("%w; remove it by hand", err)
		}
		return nil
	})
}

// DisableServer sets whether a server of the configuration file at path is disabled. The rest of the file keeps every byte.
func (ed Editor) DisableServer(path, name string, disabled bool) error {
	return ed.edit(fmt.Sprintf("change server %q in", name), path, func(d *document) error {
		f, ok := d.server(name)
		if !ok || f.value.kind != mapping || f.value.alias {
			return fmt.Errorf("%w; set disabled by hand%w", errByHand, missing{})
		}
		entry, _ := f.value.plain().(object)
		set := false
		for _, key := range []string{"disabled", "enabled"} {
			value := disabled == (key == "disabled")
			own, ok := f.value.get(key)
			if !ok {
				continue
			}
			if own.merged || own.value.kind != scalar || own.value.alias {
				return fmt.Errorf("%w; set %s by hand", errByHand, key)
			}
			at := d.offset(own.value.position)
			if !strings.HasPrefix(d.text[at:], own.value.text) {
				return fmt.Errorf("%w; set %s by hand", errByHand, key)
			}
			d.splice(at, at+len(own.value.text), fmt.Sprint(value))
			entry[key], set = fmt.Sprint(value), true
		}
		switch {
		case set:
		case !disabled:
			return nil // already enabled
		case f.value.inBraces():
			d.addFlow(f.value, `"disabled": true`)
			entry["disabled"] = "true"
		default:
			own := f.value.keys[0]
			if own.merged || own.line == f.line {
				return fmt.Errorf("%w; set disabled by hand", errByHand)
			}
			d.insertLines(d.line(own.line), d.indent(own)+"disabled: true"+d.newline)
			entry["disabled"] = "true"
		}
		return d.verify(name, entry)
	})
}

// missing makes an error match fs.ErrNotExist. The text of missing is empty, because the text of fs.ErrNotExist would say that the file does not
// exist.
type missing struct{}

func (missing) Error() string        { return "" }
func (missing) Is(target error) bool { return target == fs.ErrNotExist }

// checkedEntry renders a server, parses the result and checks it as Load does.
func checkedEntry(s *MCPServer) (any, error) {
	n, err := parse([]byte("{"+flowEntry(s)+"}"), position{source: "the server"})
	if err != nil {
		return nil, err
	}
	l := &loader{config: &Config{}, expanded: map[string]bool{}}
	l.problem(l.addServer(s.Name, serverSource{field: n.keys[0]}))
	return n.keys[0].value.plain(), errors.Join(l.problems...)
}

type document struct {
	mode    fs.FileMode
	text    string // current text, without a byte order mark
	before  string // text before the edits
	newline string
	root    node // syntax tree of before
}

var errByHand = errors.New("the file is written in a way that cannot be edited safely")

// edit changes a file in one step, or leaves the file as it is. A symbolic link to the file stays a link. Errors begin with the text doing.
func (ed Editor) edit(doing, path string, change func(*document) error) error {
	file := path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		file = target
	}
	_, err := os.Stat(filepath.Dir(file))
	if err != nil {
		return fmt.Errorf("%s %s: the directory: %s", doing, path, reason(err))
	}
	err = disk.Exclusively(file, func() error {
		d, before, err := open(file)
		if err != nil {
			return err
		}
		if err := change(d); err != nil {
			return err
		}
		known, err := ed.Trust.Of(path, before)
		if err != nil {
			return err
		}
		text := slices.Concat(before[:len(before)-len(d.before)], []byte(d.text)) // keeps the byte order mark
		if ed.Trust == nil || before != nil && known != trust.Trusted {
			return disk.Replace(file, text, d.mode)
		}
		if err := ed.Trust.Change(path, text); err != nil {
			return err
		}
		if err := disk.Replace(file, text, d.mode); err != nil {
			return err
		}
		return ed.Trust.Trust(map[string][]byte{path: text})
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", doing, path, err)
	}
	return nil
}

// open reads a file for editing. A missing file yields an empty document and nil content.
func open(file string) (*document, []byte, error) {
	d := &document{mode: 0o600, newline: "\n"}
	if info, err := os.Stat(file); err == nil {
		d.mode = info.Mode().Perm()
	}
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errors.New(reason(err))
	}
	d.text = strings.TrimPrefix(string(data), bom)
	d.before = d.text
	if strings.Contains(d.text, "\r\n") {
		d.newline = "\r\n"
	}
	if d.root, err = parse(data, position{source: file, line: 1, column: 1}); err != nil {
		return nil, nil, err
	}
	if d.root.kind != mapping && d.root.kind != null {
		return nil, nil, errByHand
	}
	return d, data, nil
}

func (d *document) servers() node {
	f, _ := d.root.get("mcpServers")
	return f.value
}

// server finds a server whose entry is in the mapping itself. It does not find a server that YAML merges into the mapping.
func (d *document) server(name string) (field, bool) {
	f, ok := d.servers().get(name)
	return f, ok && !f.merged && !d.servers().alias
}

// verify parses the edited text. The server must equal entry, or be absent if entry is nil; everything else must be unchanged.
func (d *document) verify(name string, entry any) error {
	edited, err := parse([]byte(d.text), position{})
	if err != nil {
		return errByHand
	}
	split := func(n node) (servers, rest object) {
		rest, _ = n.plain().(object)
		servers = object{}
		if all, ok := rest["mcpServers"].(object); ok {
			servers = all
		}
		delete(rest, "mcpServers")
		return servers, rest
	}
	got, gotRest := split(edited)
	want, wantRest := split(d.root)
	if delete(want, name); entry != nil {
		want[name] = entry
	}
	if !maps.EqualFunc(got, want, reflect.DeepEqual) || !maps.EqualFunc(gotRest, wantRest, reflect.DeepEqual) {
		return errByHand
	}
	return nil
}

// The methods below change the text. document.verify checks the result, so an unusual layout causes an error and never a damaged file.

const space = " \t\r\n"

// offset converts a position to a byte offset.
func (d *document) offset(p position) int {
	at := d.line(p.line)
	for range p.column - 1 {
		_, n := utf8.DecodeRuneInString(d.text[at:])
		at += n
	}
	return at
}

// line returns the byte offset at which line n begins, counted from 1.
func (d *document) line(n int) int {
	lines := strings.SplitAfterN(d.text, "\n", n)
	if len(lines) < n {
		return len(d.text)
	}
	return len(d.text) - len(lines[n-1])
}

func (d *document) splice(from, to int, text string) { d.text = d.text[:from] + text + d.text[to:] }

func (d *document) insertLines(at int, lines string) {
	if at > 0 && d.text[at-1] != '\n' {
		lines = d.newline + lines
	}
	d.splice(at, at, lines)
}

func (d *document) add(s *MCPServer) error {
	f, ok := d.root.get("mcpServers")
	m := f.value
	switch {
	case !ok && d.root.inBraces():
		d.addFlow(d.root, `"mcpServers": {`+flowEntry(s)+"}")
	case !ok:
		gap := ""
		if d.text != "" {
			gap = d.newline
		}
		d.insertLines(len(d.text), gap+"mcpServers:"+d.newline+blockEntry(s, "  ", d.newline))
	case m.inBraces():
		d.addFlow(m, flowEntry(s))
	case m.kind == null && !d.root.inBraces():
		if at := d.offset(m.position); m.line == f.line && strings.HasPrefix(d.text[at:], m.text) { // an explicit null
			d.splice(len(strings.TrimRight(d.text[:at], " ")), at+len(m.text), "")
		}
		d.insertLines(d.line(f.line+1), blockEntry(s, d.indent(f)+"  ", d.newline))
	case m.kind == mapping && len(m.keys) > 0 && !m.keys[0].merged:
		own := slices.DeleteFunc(slices.Clone(m.keys), func(f field) bool { return f.merged })
		_, end := d.extent(own[len(own)-1])
		d.insertLines(end, blockEntry(s, d.indent(own[0]), d.newline))
	default:
		return errByHand
	}
	return nil
}

// addFlow inserts a member before the closing brace of a flow mapping.
func (d *document) addFlow(m node, text string) {
	at := len(strings.TrimRight(d.text[:d.offset(m.end)], space))
	if len(m.keys) > 0 {
		gap, comma := " ", ","
		if indent := d.indent(m.keys[0]); strings.TrimSpace(indent) == "" {
			gap = d.newline + indent
		}
		if d.text[at-1] == ',' {
			comma = ""
		}
		text = comma + gap + text
	}
	d.splice(at, at, text)
}

func (d *document) replace(f field, s *MCPServer) {
	text := flowEntry(s)
	if !d.servers().inBraces() {
		text = blockEntry(s, d.indent(f), d.newline)
	}
	from, to := d.extent(f)
	d.splice(from, to, text)
}

// remove deletes an entry. In a flow mapping it also deletes the comma and the space after the entry or, for the last entry, the comma
// before it.
func (d *document) remove(f field) {
	from, to := d.extent(f)
	if servers := d.servers(); servers.inBraces() {
		rest, comma := strings.CutPrefix(strings.TrimLeft(d.text[to:], space), ",")
		if comma {
			to = len(d.text) - len(strings.TrimLeft(rest, space))
		} else if f.name != servers.keys[0].name {
			from = max(strings.LastIndexByte(d.text[:from], ','), 0)
		}
	}
	d.splice(from, to, "")
}

// indent returns the text before a key on its line.
func (d *document) indent(f field) string { return d.text[d.line(f.line):d.offset(f.position)] }

// extent returns the byte range of a server. In a flow mapping that is the entry alone. In a block mapping it is the lines from the key to
// the last line that is indented deeper or closes its brace; empty lines and comments after them belong to the next entry.
func (d *document) extent(f field) (from, to int) {
	last := f.line
	if f.value.inBraces() && !f.value.alias {
		last = f.value.end.line
		if d.servers().inBraces() {
			return d.offset(f.position), d.offset(f.value.end) + 1
		}
	}
	from, to = d.line(f.line), d.line(last+1)
	indent := len(d.indent(f))
	at := to
	for line := range strings.Lines(d.text[to:]) {
		at += len(line)
		content := strings.TrimLeft(line, " ")
		switch deeper := len(line)-len(content) > indent; {
		case strings.TrimRight(content, "\r\n") == "":
		case deeper:
			to = at
		case content[0] != '#':
			return from, to
		}
	}
	return from, to
}

// values yields each key of a server whose value differs from its default, with the value: a string, a list, a mapping or true.
func values(s *MCPServer) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, k := range keysOf(reflect.ValueOf(s).Elem(), "") {
			f, value := k.dst, k.dst.Interface()
			if d, ok := value.(time.Duration); ok {
				value = formatDuration(d)
			}
			isDefault := f.IsZero() || k.composite() && f.Len() == 0 || f.CanInt() && k.value != "" && f.Int() == k.bound(k.value)
			if !isDefault && k.path != "enabled" && !yield(k.path, value) {
				return
			}
		}
	}
}

// inline writes a value of a server on one line; text formats each string.
func inline(value any, text func(string) string) string {
	var parts []string
	switch v := value.(type) {
	case string:
		return text(v)
	case []string:
		for _, item := range v {
			parts = append(parts, text(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]string:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, text(name)+": "+text(v[name]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(value)
}

// flowEntry writes a server as a JSON member: its name, then its values in braces.
func flowEntry(s *MCPServer) string {
	var parts []string
	for name, value := range values(s) {
		parts = append(parts, ident.Quote(name)+": "+inline(value, ident.Quote))
	}
	return ident.Quote(s.Name) + ": {" + strings.Join(parts, ", ") + "}"
}

func blockEntry(s *MCPServer, indent, newline string) string {
	lines := []string{plainOrQuoted(s.Name) + ":"}
	for name, value := range values(s) {
		members, ok := value.(map[string]string)
		if !ok {
			lines = append(lines, "  "+name+": "+inline(value, plainOrQuoted))
			continue
		}
		lines = append(lines, "  "+name+":")
		for _, name := range slices.Sorted(maps.Keys(members)) {
			lines = append(lines, "    "+plainOrQuoted(name)+": "+plainOrQuoted(members[name]))
		}
	}
	return indent + strings.Join(lines, newline+indent) + newline
}

// plainOrQuoted writes a string without quotes if every YAML reader reads it as the same string.
func plainOrQuoted(s string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	switch strings.ToLower(s) {
	case "yes", "no", "on", "off", "y", "n", "nan", "inf", "-inf": // some readers, such as those of YAML 1.1, take these for booleans or numbers
		return ident.Quote(s)
	}
	if strings.Trim(s, letters+"0123456789-_./+=@:") != "" || !strings.ContainsAny(s, letters) || token.IsNeedQuoted(s) ||
		strings.HasPrefix(s, "---") || strings.HasPrefix(s, "...") || strings.HasSuffix(s, ":") {
		return ident.Quote(s)
	}
	return s
}
