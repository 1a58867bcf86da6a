package web

import (
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/jsontext"
	"mcp-code-exec-harness/internal/runs"
)

// Limits for the tree of a value.
const (
	maxNodes   = 100     // nodes shown below the root of one tree; the page of a call has two trees, so it shows up to twice as many
	pageNodes  = 100     // maximum number of children of a node on one page
	maxLevels  = 4       // levels that are shown below the children of the page's node
	maxLeaf    = 400     // length of a text within the tree, in bytes
	maxPlain   = 4 << 10 // length of a value that is shown as plain text too, in bytes
	maxDepth   = 64      // level down to which nodes have their own page
	maxPointer = 2000    // length of the pointer of a node with its own page, in bytes
)

// node is a value within a JSON value.
type node struct {
	Name  string // key or index
	Kind  string // object or array; empty for other values
	Count int    // number of children
	Nodes []node // children that are shown
	Text  string // text of a value without children
	More  int    // number of bytes that Text omits
	Link  string // address of the node's page; empty beyond maxDepth and maxPointer

	raw     json.RawMessage
	pointer string
}

// tree is a value, or one page of it.
type tree struct {
	node
	Plain string // the value as text, if it is short
	Raw   string // address of the value as a file
	Path  []node // path of nodes to the one that is shown
	From  int    // index of the first child that is shown
	Prev  string // address of the previous children or text; empty if there are none
	Next  string // address of the next children or text; empty if there are none
}

// children iterates over the members of an object or the items of an array.
func children(of json.RawMessage) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		for name, v := range jsontext.Members(of) {
			if !yield(name, of[v.From:v.End]) {
				return
			}
		}
		i := 0
		for v := range jsontext.Items(of) {
			if !yield(strconv.Itoa(i), of[v.From:v.End]) {
				return
			}
			i++
		}
	}
}

// grow returns the node of a value. base is the address of the whole value's page.
func grow(base, pointer, name string, raw json.RawMessage) node {
	n := node{Name: clip.Visible(clip.Text(name, maxLeaf)), raw: raw, pointer: pointer}
	if len(pointer) <= maxPointer && strings.Count(pointer, "/") <= maxDepth {
		n.Link = base + "&path=" + url.QueryEscape(pointer)
	}
	switch raw[0] {
	case '{':
		n.Kind = "object"
	case '[':
		n.Kind = "array"
	default:
		text := scalar(raw)
		n.Text = clip.Head(text, maxLeaf)
		n.More = len(text) - len(n.Text)
		if n.Text = clip.Visible(n.Text); raw[0] == '"' {
			n.Text = `"` + n.Text + `"`
		}
		return n
	}
	for range children(raw) {
		n.Count++
	}
	return n
}

// show adds a page of children to a node, starting at index from.
func (n *node) show(base string, from int) {
	i := 0
	for name, raw := range children(n.raw) {
		if i >= from+pageNodes {
			break
		}
		if i >= from {
			n.Nodes = append(n.Nodes, grow(base, n.pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), name, raw))
		}
		i++
	}
}

// unfold adds the children of nodes while there is room, beginning with the first level.
func unfold(level []*node, base string) {
	left := maxNodes - len(level)
	for range maxLevels {
		var below []*node
		for _, n := range level {
			if n.Count == 0 || n.Count > min(left, pageNodes) {
				continue
			}
			n.show(base, 0)
			left -= n.Count
			below = append(below, n.shown()...)
		}
		level = below
	}
}

func (n *node) shown() (all []*node) {
	for i := range n.Nodes {
		all = append(all, &n.Nodes[i])
	}
	return all
}

// scalar returns the text of a value without children.
func scalar(raw json.RawMessage) string {
	if text, ok := jsontext.String(raw); ok {
		return text
	}
	return string(raw)
}

// treeOf returns a page of the value at a JSON pointer (RFC 6901) within raw. from is the first child or byte that it shows. ok is false if the
// pointer leads to no value. base is the address of the whole value's page.
func treeOf(raw json.RawMessage, base, pointer string, from int) (t tree, ok bool) {
	t.Raw = base + "&raw=1"
	if len(raw) == 0 {
		return t, pointer == ""
	}
	t.node = grow(base, "", "all", raw)
	t.Path = []node{t.node}
	for at := ""; pointer != ""; {
		step, rest, more := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
		if pointer[0] != '/' || len(t.Path) > maxDepth {
			return t, false
		}
		name, found := strings.NewReplacer("~1", "/", "~0", "~").Replace(step), json.RawMessage(nil)
		for child, v := range children(t.raw) {
			if child == name {
				found = v
				break
			}
		}
		if found == nil {
			return t, false
		}
		at += "/" + step
		t.node = grow(base, at, name, found)
		t.Path = append(t.Path, t.node)
		if pointer = ""; more {
			pointer = "/" + rest
		}
	}
	t.From = max(0, from)
	page := func(from int) string { return t.Link + "&from=" + strconv.Itoa(from) }
	size := pageNodes
	if t.Kind == "" {
		text := scalar(t.raw)
		t.From = min(t.From, len(text))
		shown := clip.Head(text[t.From:], maxShown)
		t.Count, size = len(text), len(shown)
		t.Text = clip.Visible(shown)
	} else {
		t.show(base, t.From)
		unfold(t.shown(), base)
	}
	if len(raw) <= maxPlain && len(t.Path) == 1 {
		t.Plain = value(raw)
	}
	if t.From > 0 {
		t.Prev = page(max(0, t.From-max(size, pageNodes)))
	}
	if t.From+size < t.Count {
		t.Next = page(t.From + size)
	}
	return t, true
}

// valuePage returns the address of the arguments or the answer of a call.
func valuePage(run string, c runs.Call, of string) string {
	return at("/runs/", run, "/calls/", strconv.Itoa(c.N)) + "/value?" + url.Values{"of": {of}, "at": {c.At}}.Encode()
}

// value shows a part of the arguments or the answer of a call, or sends all of it as a file.
func (v *visit) value() error {
	id, of := v.r.PathValue("id"), v.query("of")
	got, err := read[runs.Call](v, at("/v1/runs/", id, "/calls/", v.r.PathValue("n")), "at", v.query("at"))
	if err != nil {
		return err
	}
	title, raw := "Answer", got.Result
	if of == "args" {
		title, raw = "Arguments", got.Arguments
	}
	if v.query("raw") != "" {
		v.w.Header().Set("Content-Type", "application/json")
		v.w.Header().Set("Content-Disposition", `attachment; filename="`+strings.ToLower(title)+`.json"`)
		_, _ = v.w.Write(raw) // the browser may be gone
		return nil
	}
	from, _ := strconv.Atoi(v.query("from"))
	t, ok := treeOf(raw, valuePage(id, got, of), v.query("path"), from)
	if !ok {
		return &refusal{Status: http.StatusNotFound, Detail: "the value has nothing at this path"}
	}
	t.Plain = ""
	return v.show("value", view{Title: title + " of call " + strconv.Itoa(got.N), Nav: "runs", Body: struct {
		tree
		Title, Run, At string
		N              int
	}{t, title, id, got.At, got.N}})
}
