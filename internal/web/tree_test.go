package web

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// follow returns the tree that the page at an address shows.
func follow(t interface{ Fatalf(string, ...any) }, raw json.RawMessage, address string) tree {
	at, err := url.Parse(address)
	if err != nil {
		t.Fatalf("%v", err)
	}
	from, _ := strconv.Atoi(at.Query().Get("from"))
	got, ok := treeOf(raw, "/v?of=x", at.Query().Get("path"), from)
	if !ok {
		t.Fatalf("nothing at %s", address)
	}
	count := 0
	var look func(nodes []node)
	look = func(nodes []node) {
		for _, n := range nodes {
			count++
			look(n.Nodes)
		}
	}
	if look(got.Nodes); count > maxNodes || len(got.Text) > 4*maxShown {
		t.Fatalf("%s shows %d nodes and %d bytes", address, count, len(got.Text))
	}
	return got
}

// gather puts a value together from the pages that its links lead to.
func gather(t interface{ Fatalf(string, ...any) }, raw json.RawMessage, address string) any {
	page := follow(t, raw, address)
	if page.Kind == "" {
		text := page.Text
		for next := page.Next; next != ""; {
			page = follow(t, raw, next)
			text, next = text+page.Text, page.Next
		}
		return text
	}
	var of func(n node) any
	object, array := map[string]any{}, []any{}
	add := func(n node, value any) {
		object[n.Name] = value
		array = append(array, value)
	}
	of = func(n node) any {
		switch {
		case n.Kind == "" && n.More == 0:
			return strings.Trim(n.Text, `"`)
		case len(n.Nodes) == 0:
			return gather(t, raw, n.Link)
		}
		inner, items := map[string]any{}, []any{}
		for _, child := range n.Nodes {
			value := of(child)
			inner[child.Name], items = value, append(items, value)
		}
		if n.Kind == "array" {
			return items
		}
		return inner
	}
	for {
		for _, n := range page.Nodes {
			add(n, of(n))
		}
		if page.Next == "" {
			break
		}
		page = follow(t, raw, page.Next)
	}
	if page.Kind == "array" {
		return array
	}
	return object
}

// TestTreeIsWhole checks that the links of its pages lead to everything in a value, and that no page has too many nodes.
func TestTreeIsWhole(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"a", "b", "a/b", "~", "~1", "", "ä", "0", " ", "%2F"})
	var value func(levels int) *rapid.Generator[any]
	value = func(levels int) *rapid.Generator[any] {
		text := rapid.Map(rapid.SliceOfN(word, 0, 3), func(all []string) any { return strings.Repeat(strings.Join(all, ""), 100) })
		if levels == 0 {
			return text
		}
		return rapid.OneOf(text,
			rapid.Map(rapid.SliceOfN(value(levels-1), 0, 130), func(all []any) any { return append([]any{}, all...) }),
			rapid.Map(rapid.MapOfN(word, value(levels-1), 0, 8), func(all map[string]any) any { return all }))
	}
	rapid.Check(t, func(t *rapid.T) {
		want := value(3).Draw(t, "value")
		raw, _ := json.Marshal(want)
		if diff := cmp.Diff(want, gather(t, raw, "/v?of=x")); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}

// TestTree checks that a long text is shown in pages, that a short value is shown as it is, and that a wrong pointer leads to nothing.
func TestTree(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", maxShown)
	raw, _ := json.Marshal(map[string]any{"text": long, "list": []int{1, 2}})
	if got := gather(t, raw, "/v?of=x&path=%2Ftext"); got != long {
		t.Error("a long text is not whole")
	}
	last := follow(t, raw, "/v?of=x&path=%2Ftext&from="+strconv.Itoa(len(long)-10))
	if last.Next != "" || !strings.Contains(last.Prev, "&from="+strconv.Itoa(len(long)-10-pageNodes)) {
		t.Errorf("the last part of a text: before %s, behind %s", last.Prev, last.Next)
	}
	if got, _ := treeOf(json.RawMessage(`{"a":[1]}`), "/v?of=x", "", 0); got.Plain != "{\n  \"a\": [\n    1\n  ]\n}" {
		t.Errorf("a short value: %q", got.Plain)
	}
	for _, pointer := range []string{"/none", "text", "/list/2", "/list/-1", "/list/x", "/text/0", "/", "//", strings.Repeat("/0", 100)} {
		if _, ok := treeOf(raw, "/v?of=x", pointer, 0); ok {
			t.Errorf("there is something at %q", pointer)
		}
	}
	for _, count := range []int{pageNodes, pageNodes + 1, 2*pageNodes + 1} {
		items := make([]any, count)
		for i := range items {
			items[i] = strings.Repeat("x", 50)
		}
		raw, _ := json.Marshal(items)
		if diff := cmp.Diff(any(items), gather(t, raw, "/v?of=x")); diff != "" {
			t.Errorf("%d items: (-want +got)\n%s", count, diff)
		}
	}
	if got := follow(t, raw, "/v?of=x&path=%2Ftext&from=999999999"); got.Text != "" || got.Next != "" {
		t.Errorf("behind the end of a text: %q, %s", got.Text, got.Next)
	}
	deep := json.RawMessage(strings.Repeat("[", 200) + strings.Repeat("]", 200))
	at := ""
	for levels := 1; ; levels++ {
		page, ok := treeOf(deep, "/v?of=x", at, 0)
		if !ok {
			t.Fatalf("nothing at level %d", levels)
		}
		n := page.node
		for len(n.Nodes) > 0 {
			n = n.Nodes[0]
		}
		if n.Link == "" {
			if levels < maxDepth/(maxLevels+1) {
				t.Errorf("the links end after %d pages", levels)
			}
			break
		}
		at = n.pointer
	}
	if _, ok := treeOf(deep, "/v?of=x", strings.Repeat("/0", maxDepth+1), 0); ok {
		t.Error("a page below the most levels")
	}
	if got, ok := treeOf(nil, "/v?of=x", "", 0); !ok || fmt.Sprint(got.Nodes) != "[]" {
		t.Errorf("no value: %v", got)
	}
}
