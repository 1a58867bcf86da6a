package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func learningCatalog() *Catalog {
	c := New()
	c.SetServer(crm())
	return c
}

func crm() Server {
	return Server{Name: "crm", Tools: []Tool{
		{Name: "search", Description: "Find customers."},
		{Name: "typed", OutputSchema: json.RawMessage(`{"type":"object","properties":{"total":{"type":"number"}}}`)},
	}}
}

func mustResolve(t testing.TB, c *Catalog, name string) *Tool {
	t.Helper()
	tool, err := c.Resolve(name)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// What is learned shows in details, signatures and declarations, marked as learned, and says nothing of the answers' values.
func TestLearn(t *testing.T) {
	t.Parallel()
	c := learningCatalog()
	before, err := c.Details("crm__search")
	if err != nil || before.Learned != nil || !strings.Contains(before.Signature, "Promise<any>") {
		t.Fatalf("%+v, %v", before, err)
	}
	tool := mustResolve(t, c, "crm__search")
	if drift := c.Learn(tool, json.RawMessage(`[{"id":"cus_1","email":"kim@example.com","mrr":5}]`)); drift != nil {
		t.Errorf("the first answer is drift: %v", drift)
	}
	d, err := c.Details("crm__search")
	if err != nil || d.Learned == nil || d.OutputSchema != nil {
		t.Fatalf("%+v, %v", d, err)
	}
	declaration, err := c.ServerDeclaration("crm")
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"schema": string(d.Learned.Schema), "details": d.TypeScript, "signature": d.Signature, "module": declaration, "all": c.Declarations(),
	} {
		if !strings.Contains(text, "email") || strings.Contains(text, "kim@") || strings.Contains(text, "mrr") {
			t.Errorf("%s: %s", what, text)
		}
		if what != "schema" && what != "signature" && !strings.Contains(text, "learned from earlier answers") {
			t.Errorf("%s does not say that it is learned: %s", what, text)
		}
	}
	if c.Learn(mustResolve(t, c, "crm__typed"), json.RawMessage(`{"id":1}`)); len(c.KeptShapes()) != 1 {
		t.Errorf("what a server declares is learned: %v", c.KeptShapes())
	}
	c.Learn(tool, json.RawMessage(`[{"id":"`+strings.Repeat("x", maxLearnedAnswer)+`","name":"x"}]`))
	c.Learn(tool, json.RawMessage(`no JSON`))
	if after, err := c.Details("crm__search"); err != nil || strings.Contains(string(after.Learned.Schema), "name") {
		t.Errorf("%+v, %v", after, err)
	}
}

// An answer that differs from several earlier ones is drift; it is told once.
func TestLearnDrift(t *testing.T) {
	t.Parallel()
	c := learningCatalog()
	tool := mustResolve(t, c, "crm__search")
	for range settled {
		if drift := c.Learn(tool, json.RawMessage(`{"id":1,"name":"x"}`)); drift != nil {
			t.Fatal(drift)
		}
	}
	want := []string{".name can be missing", ".id can be string"}
	if diff := cmp.Diff(want, c.Learn(tool, json.RawMessage(`{"id":"x"}`))); diff != "" {
		t.Error(diff)
	}
	if drift := c.Learn(tool, json.RawMessage(`{"id":"x"}`)); drift != nil {
		t.Errorf("told twice: %v", drift)
	}
	d, err := c.Details("crm__search")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, d.Learned.Drift); diff != "" {
		t.Error(diff)
	}
	// An empty list says nothing of what stands in it.
	list := learningCatalog()
	tool = mustResolve(t, list, "crm__search")
	for range settled + 1 {
		list.Learn(tool, json.RawMessage(`[]`))
	}
	if drift := list.Learn(tool, json.RawMessage(`[{"id":1}]`)); drift != nil {
		t.Error(drift)
	}
	if d, err := list.Details("crm__search"); err != nil || !strings.Contains(string(d.Learned.Schema), `"id"`) {
		t.Errorf("%+v, %v", d, err)
	}
}

// What is learned survives a new list of tools and a restart; a tool that is defined anew is learned anew; what was not made by
// this package is not taken.
func TestKeptShapes(t *testing.T) {
	t.Parallel()
	c := learningCatalog()
	changed := c.ShapesChanged()
	c.Learn(mustResolve(t, c, "crm__search"), json.RawMessage(`{"id":1}`))
	select {
	case <-changed:
	default:
		t.Error("nothing says that something was learned")
	}
	c.SetServer(crm())
	if d, err := c.Details("crm__search"); err != nil || d.Learned == nil {
		t.Fatalf("forgotten: %v", err)
	}
	raw, err := json.Marshal(c.KeptShapes())
	if err != nil {
		t.Fatal(err)
	}
	restored := func(raw string) *Catalog {
		var kept []KeptShape
		if err := json.Unmarshal([]byte(raw), &kept); err != nil {
			t.Fatal(err)
		}
		next := New()
		next.RestoreShapes(kept)
		return next
	}
	next := restored(string(raw))
	if diff := cmp.Diff(c.KeptShapes(), next.KeptShapes()); diff != "" {
		t.Errorf("before its server is listed: %s", diff)
	}
	next.SetServer(crm())
	if diff := cmp.Diff(c.KeptShapes(), next.KeptShapes()); diff != "" {
		t.Error(diff)
	}
	other := crm()
	other.Tools[0].Description = "Something else."
	next.SetServer(other)
	if d, err := next.Details("crm__search"); err != nil || d.Learned != nil {
		t.Errorf("the shape of another definition: %+v, %v", d, err)
	}
	for _, bad := range []string{
		strings.Replace(string(raw), `"id"`, `"kim@example.com"`, 1), strings.Replace(string(raw), `"number"`, `"date"`, 1),
		strings.Replace(string(raw), `"shape":{`, `"shape":null,"x":{`, 1),
	} {
		if bad == string(raw) {
			t.Fatal("not replaced")
		}
		if got := restored(bad).KeptShapes(); len(got) != 0 {
			t.Errorf("%s is taken: %v", bad, got)
		}
	}
}

// A server that lists ever new tools does not fill the memory.
func TestLearnedToolsAreBounded(t *testing.T) {
	t.Parallel()
	c := New()
	for round := range 3 {
		s := Server{Name: "many"}
		for i := range maxLearnedTools + 10 {
			s.Tools = append(s.Tools, Tool{Name: fmt.Sprintf("t%d_%d", round, i)})
		}
		c.SetServer(s)
		for _, tool := range c.Tools() {
			c.Learn(tool, json.RawMessage(`{"id":1}`))
		}
	}
	if n := len(c.KeptShapes()); n != maxLearnedTools {
		t.Errorf("%d shapes", n)
	}
}

func TestLearnConcurrently(t *testing.T) {
	t.Parallel()
	c := learningCatalog()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				c.Learn(mustResolve(t, c, "crm__search"), fmt.Appendf(nil, `{"id":%d,"tag%d":[%d]}`, i, j%3, j))
				c.SetServer(crm())
				_, _ = c.KeptShapes(), c.Declarations()
			}
		})
	}
	wg.Wait()
	if got := c.KeptShapes(); len(got) != 1 || got[0].Answers != 200 {
		t.Errorf("%+v", got)
	}
}

func BenchmarkLearn(b *testing.B) {
	c := learningCatalog()
	tool := mustResolve(b, c, "crm__search")
	answer := json.RawMessage("[" + strings.Repeat(`{"id":1,"name":"x","tags":["a"],"owner":{"id":2,"email":"x"}},`, 50) + "{}]")
	for b.Loop() {
		c.Learn(tool, answer)
	}
}
