package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"

	"mcp-code-exec-harness/internal/startup"
)

// Entry is the entry of the harness in a client's configuration.
type Entry struct {
	Type    string   `json:"type,omitempty" toml:"type,omitempty"`
	Command string   `json:"command" toml:"command"`
	Args    []string `json:"args" toml:"args"`
}

// harnessName is the name of the entry.
const harnessName = "harness"

var errByHand = errors.New("the file is written in a way that cannot be edited safely; edit it by hand")

// Rewrite removes servers from a client's configuration and adds the harness. Each item of remove has the keys that lead to one server. Every other
// byte stays, except comments at the removed servers. Rewrite reads the result again, so a file of unusual layout leads to an error, never to a
// damaged file.
func (c Client) Rewrite(text []byte, remove [][]string, e Entry) ([]byte, error) {
	before, err := decode(text, c.TOML)
	if err != nil {
		return nil, err
	}
	if c.Typed {
		e.Type = "stdio"
	}
	var out []byte
	if c.TOML {
		out, err = c.rewriteTOML(text, remove, e)
	} else {
		out, err = c.rewriteJSON(text, remove, e)
	}
	if err != nil {
		return nil, err
	}
	after, err := decode(out, c.TOML)
	if err != nil {
		return nil, errByHand
	}
	for _, path := range remove {
		if parent, ok := lookup(before, path[:len(path)-1]).(object); ok {
			delete(parent, path[len(path)-1])
		}
	}
	own, ok := lookup(after, c.Path).(object)
	if !ok || own[harnessName] == nil {
		return nil, errByHand
	}
	delete(own, harnessName)
	if was, ok := lookup(before, c.Path).(object); ok {
		delete(was, harnessName)
	}
	prune(before, c.Path)
	prune(after, c.Path)
	if !reflect.DeepEqual(before, after) {
		return nil, errByHand
	}
	return out, nil
}

// prune removes a list of servers that is empty.
func prune(root object, path []string) {
	parent, _ := lookup(root, path[:len(path)-1]).(object)
	if servers, ok := lookup(root, path).(object); ok && len(servers) == 0 {
		delete(parent, path[len(path)-1])
	}
}

func (c Client) rewriteJSON(text []byte, remove [][]string, e Entry) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	if !bytes.HasSuffix(text, []byte("\n")) {
		text = append(slices.Clone(text), '\n') // a comment in the last line needs a line break at its end
	}
	v, err := hujson.Parse(slices.Clone(text))
	if err != nil {
		return nil, fmt.Errorf("this is not valid JSON: %w", err)
	}
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	var patch []operation
	for _, path := range remove {
		patch = append(patch, operation{Op: "remove", Path: pointer(path)})
	}
	for i := range c.Path {
		if v.Find(pointer(c.Path[:i+1])) == nil {
			patch = append(patch, operation{"add", pointer(c.Path[:i+1]), object{}})
		}
	}
	entry := append(slices.Clone(c.Path), harnessName)
	patch = append(patch, operation{"add", pointer(entry), e})
	encoded, err := json.Marshal(patch)
	if err == nil {
		err = v.Patch(encoded)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", errByHand, err)
	}
	// The new member gets a line of its own.
	if servers, ok := v.Find(pointer(c.Path)).Value.(*hujson.Object); ok {
		indent := "\n" + strings.Repeat("  ", len(c.Path)+1)
		for i := range servers.Members {
			if extra := string(servers.Members[i].Name.BeforeExtra); i < len(servers.Members)-1 && strings.HasPrefix(extra, "\n") && strings.TrimSpace(extra) == "" {
				indent = extra
			}
		}
		last := &servers.Members[len(servers.Members)-1]
		if name, ok := last.Name.Value.(hujson.Literal); ok && name.String() == harnessName {
			last.Name.BeforeExtra, last.Value.BeforeExtra = hujson.Extra(indent), hujson.Extra(" ")
		}
		if len(servers.AfterExtra) == 0 {
			servers.AfterExtra = hujson.Extra("\n" + strings.Repeat("  ", len(c.Path)))
		}
	}
	return v.Pack(), nil
}

// pointer returns a JSON pointer (RFC 6901).
func pointer(path []string) string {
	var b strings.Builder
	for _, key := range path {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	return b.String()
}

// tableHeader matches the line that begins a table of TOML.
var tableHeader = startup.Regexp(`^[ \t]*\[([^\[\]].*)\][ \t]*(?:#.*)?\r?\n?$`)

// rewriteTOML removes the tables of the servers, line by line, and adds the table of the harness at the end.
func (c Client) rewriteTOML(text []byte, remove [][]string, e Entry) ([]byte, error) {
	gone := map[string]bool{harnessName: true}
	for _, path := range remove {
		gone[path[len(path)-1]] = true
	}
	var out bytes.Buffer
	skip := false
	for line := range bytes.Lines(text) {
		if m := tableHeader().FindSubmatch(line); m != nil {
			name, ok := c.tableName(m[1])
			skip = ok && gone[name]
		} else if bytes.HasPrefix(bytes.TrimSpace(line), []byte("[[")) {
			skip = false
		}
		if !skip {
			out.Write(line)
		}
	}
	if out.Len() > 0 && !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
		out.WriteByte('\n')
	}
	entry, err := toml.Marshal(object{c.Path[0]: object{harnessName: e}})
	if err != nil {
		return nil, err
	}
	_, table, _ := bytes.Cut(entry, []byte("["+c.Path[0]+"."+harnessName+"]"))
	if out.Len() > 0 {
		out.WriteByte('\n')
	}
	fmt.Fprintf(&out, "[%s.%s]%s", c.Path[0], harnessName, table)
	return out.Bytes(), nil
}

// tableName returns the name of the server that a table describes, completely or in part. header is the text in the brackets of the table's header. The
// second result is false for tables that describe no server.
func (c Client) tableName(header []byte) (string, bool) {
	var root object
	if toml.Unmarshal([]byte("["+string(header)+"]\n"), &root) != nil {
		return "", false
	}
	servers, _ := root[c.Path[0]].(object)
	for name := range servers {
		return name, len(root) == 1
	}
	return "", false
}
