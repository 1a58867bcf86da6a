package catalog

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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

// descriptions returns every text about crm__search that a user sees, by its source.
func descriptions(t testing.TB, c *Catalog, user string) map[string]string {
	t.Helper()
	v := c.For(user)
	d, err := v.Details("crm__search")
	if err != nil {
		t.Fatal(err)
	}
	declaration, err := v.ServerDeclaration("crm")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{
		"details": d.TypeScript, "signature": d.Signature, "module": declaration, "all": v.Declarations(), "search": c.Search(t.Context(), user, "find customers", 1)[0].Signature,
	}
	if d.Learned != nil {
		texts["schema"] = string(d.Learned.Schema)
	}
	for _, call := range []string{"details", "index", "search"} {
		answer, err := c.Answer(t.Context(), user, call, json.RawMessage(`{"server":"crm","name":"search","query":"find customers","detail":"full"}`))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		texts["answer "+call] = string(text)
	}
	return texts
}

// TestLearn: learned shapes are part of details, signatures and declarations and are marked as learned. They contain no values of the answers.
func TestLearn(t *testing.T) {
	t.Parallel()
	c := learningCatalog()
	if before := descriptions(t, c, "ann"); before["schema"] != "" || !strings.Contains(before["signature"], "Promise<any>") {
		t.Fatalf("%+v", before)
	}
	tool := mustResolve(t, c, "crm__search")
	if drift := c.Learn("ann", tool, json.RawMessage(`[{"id":"cus_1","email":"kim@example.com","mrr":5}]`)); drift != nil {
		t.Errorf("the first answer is drift: %v", drift)
	}
	after := descriptions(t, c, "ann")
	if after["schema"] == "" {
		t.Error("details do not have the schema")
	}
	for what, text := range after {
		if !strings.Contains(text, "email") || strings.Contains(text, "kim@") || strings.Contains(text, "mrr") {
			t.Errorf("%s: %s", what, text)
		}
		if slices.Contains([]string{"details", "module", "all"}, what) && !strings.Contains(text, "learned from earlier answers") {
			t.Errorf("%s does not say that it is learned: %s", what, text)
		}
	}
	if c.Learn("ann", mustResolve(t, c, "crm__typed"), json.RawMessage(`{"id":1}`)); len(c.shapes.kept()) != 1 {
		t.Errorf("what a server declares is learned: %v", c.shapes.kept())
	}
	c.Learn("ann", tool, json.RawMessage(`[{"id":"`+strings.Repeat("x", maxLearnedAnswer)+`","name":"x"}]`))
	c.Learn("ann", tool, json.RawMessage(`no JSON`))
	if after := descriptions(t, c, "ann"); strings.Contains(after["schema"], "name") {
		t.Errorf("%+v", after)
	}
}

// TestLearnedOfOthers: shapes learned from one user's answers are shown neither to another user nor without a user. The other user sees the shapes of their
// own answers.
func TestLearnedOfOthers(t *testing.T) {
	t.Parallel()
	c := learningCatalog()
	tool := mustResolve(t, c, "crm__search")
	nothing := descriptions(t, c, "ben")
	c.Learn("ann", tool, json.RawMessage(`{"id":1,"email":"x"}`))
	c.Learn("", tool, json.RawMessage(`{"id":1,"phone":"x"}`))
	for _, user := range []string{"ben", ""} {
		descriptions(t, c, "ann") // makes and caches ann's declarations
		if diff := cmp.Diff(nothing, descriptions(t, c, user)); diff != "" {
			t.Errorf("%q sees something of what ann was answered: %s", user, diff)
		}
	}
	c.Learn("ben", tool, json.RawMessage(`{"id":1,"address":"x"}`))
	for user, want := range map[string][2]string{"ann": {"email", "address"}, "ben": {"address", "email"}} {
		for what, text := range descriptions(t, c, user) {
			if !strings.Contains(text, want[0]) || strings.Contains(text, want[1]) || strings.Contains(text, "phone") {
				t.Errorf("%s: %s: %s", user, what, text)
			}
		}
	}
}

// TestLearnDrift: an answer that differs from several earlier ones is drift, and the difference is reported once.
func TestLearnDrift(t *testing.T) {
	t.Parallel()
	c := learningCatalog()
	tool := mustResolve(t, c, "crm__search")
	for range settled {
		if drift := c.Learn("ann", tool, json.RawMessage(`{"id":1,"name":"x"}`)); drift != nil {
			t.Fatal(drift)
		}
	}
	if drift := c.Learn("ben", tool, json.RawMessage(`{"id":"x"}`)); drift != nil {
		t.Errorf("another user's first answer is drift: %v", drift)
	}
	want := []string{".name can be missing", ".id can be string"}
	if diff := cmp.Diff(want, c.Learn("ann", tool, json.RawMessage(`{"id":"x"}`))); diff != "" {
		t.Error(diff)
	}
	if drift := c.Learn("ann", tool, json.RawMessage(`{"id":"x"}`)); drift != nil {
		t.Errorf("told twice: %v", drift)
	}
	d, err := c.For("ann").Details("crm__search")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, d.Learned.Drift); diff != "" {
		t.Error(diff)
	}
	// An empty list shows nothing about the shape of its items.
	list := learningCatalog()
	tool = mustResolve(t, list, "crm__search")
	for range settled + 1 {
		list.Learn("ann", tool, json.RawMessage(`[]`))
	}
	if drift := list.Learn("ann", tool, json.RawMessage(`[{"id":1}]`)); drift != nil {
		t.Error(drift)
	}
	if shown := descriptions(t, list, "ann"); !strings.Contains(shown["schema"], `"id"`) {
		t.Errorf("%+v", shown)
	}
}

// TestKeptShapes: learned shapes are kept when the tools are listed again and after a restart. A tool with a new definition starts without a shape. Entries
// that this package cannot have written are ignored.
func TestKeptShapes(t *testing.T) {
	t.Parallel()
	c := learningCatalog()
	changed := c.shapes.changes()
	c.Learn("ann", mustResolve(t, c, "crm__search"), json.RawMessage(`{"id":1}`))
	select {
	case <-changed:
	default:
		t.Error("nothing says that something was learned")
	}
	c.SetServer(crm())
	if descriptions(t, c, "ann")["schema"] == "" {
		t.Fatal("forgotten")
	}
	raw, err := json.Marshal(c.shapes.kept())
	if err != nil {
		t.Fatal(err)
	}
	restored := func(raw string) *Catalog {
		var kept []KeptShape
		if err := json.Unmarshal([]byte(raw), &kept); err != nil {
			t.Fatal(err)
		}
		next := New()
		next.shapes.restore(kept)
		return next
	}
	next := restored(string(raw))
	if diff := cmp.Diff(c.shapes.kept(), next.shapes.kept()); diff != "" {
		t.Errorf("before its server is listed: %s", diff)
	}
	next.SetServer(crm())
	if diff := cmp.Diff(descriptions(t, c, "ann"), descriptions(t, next, "ann")); diff != "" {
		t.Error(diff)
	}
	if descriptions(t, next, "ben")["schema"] != "" {
		t.Error("after a restart another user sees it")
	}
	other := crm()
	other.Tools[0].Description = "Find customers, or something else."
	next.SetServer(other)
	if d := descriptions(t, next, "ann"); d["schema"] != "" {
		t.Errorf("the shape of another definition: %+v", d)
	}
	declaring := crm()
	declaring.Tools[0].OutputSchema = json.RawMessage(`{"type":"string"}`)
	next.SetServer(declaring)
	if d := descriptions(t, next, "ann"); d["schema"] != "" {
		t.Errorf("a learned shape in place of a declared one: %+v", d)
	}
	for _, bad := range []string{
		strings.Replace(string(raw), `"id"`, `"kim@example.com"`, 1), strings.Replace(string(raw), `"number"`, `"date"`, 1),
		strings.Replace(string(raw), `"shape":{`, `"shape":null,"x":{`, 1), strings.Replace(string(raw), `"ann"`, `""`, 1),
	} {
		if bad == string(raw) {
			t.Fatal("not replaced")
		}
		if got := restored(bad).shapes.kept(); len(got) != 0 {
			t.Errorf("%s is taken: %v", bad, got)
		}
	}
}

// TestShapeFile: two processes keep their learned shapes in one file, and neither removes the entries of the other, for the same user or another one. A
// file of the first version, which named no users, is ignored, and so is a file of a later version.
func TestShapeFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state", "shapes.json")
	open := func() (*Catalog, *ShapeFile) {
		c := New()
		s := c.KeepShapes(file, func(server string) bool { return server == "crm" }, slog.New(slog.DiscardHandler))
		t.Cleanup(s.Close)
		server := crm()
		server.Tools = append(server.Tools, Tool{Name: "list"})
		c.SetServer(server)
		return c, s
	}
	learn := func(c *Catalog, s *ShapeFile, user, tool, answer string) {
		s.Learn(t.Context(), user, mustResolve(t, c, tool), json.RawMessage(answer))
	}
	one, kept := open()
	two, alsoKept := open()
	learn(one, kept, "ann", "crm__search", `{"id":1}`)
	kept.write()
	learn(two, alsoKept, "ann", "crm__list", `{"email":1}`)
	learn(two, alsoKept, "ben", "crm__search", `{"phone":1}`)
	learn(two, alsoKept, "ben", "crm__search", `{"phone":1}`)
	alsoKept.write()
	learn(one, kept, "ben", "crm__search", `{"phone":1}`) // fewer answers than the other process has for the same tool
	kept.Close()
	got := map[string]int{}
	next, _ := open()
	for _, k := range next.shapes.kept() {
		got[k.User+" "+k.Tool] = k.Answers
	}
	if diff := cmp.Diff(map[string]int{"ann search": 1, "ann list": 1, "ben search": 2}, got); diff != "" {
		t.Error(diff)
	}
	for _, version := range []string{"1", "3"} {
		old := `{"version":` + version + `,"tools":[{"user":"ann","server":"crm","tool":"search","definition":"x","answers":1,"shape":{"kinds":["null"]}}]}`
		if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, _ := open(); len(c.shapes.kept()) != 0 {
			t.Errorf("version %s is taken: %+v", version, c.shapes.kept())
		}
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*.lock")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// wide returns an answer whose shape has about the given number of places.
func wide(places int) json.RawMessage {
	var b strings.Builder
	b.WriteString("[")
	for i, name := range []string{"id", "name", "email", "phone", "address", "status"} {
		fmt.Fprintf(&b, `{"%s":{"id":1,"name":1,"email":1,"phone":1,"address":1,"status":1,"title":1}},`, name)
		if (i+1)*8 >= places {
			break
		}
	}
	return json.RawMessage(b.String() + "{}]")
}

// TestLearnedIsBounded: users with ever more tools, and ever more users, do not fill the memory. The shapes with the latest answers stay. One user's
// answers remove another user's shapes only if the limit for all users is reached.
func TestLearnedIsBounded(t *testing.T) {
	t.Parallel()
	c := New()
	s := Server{Name: "many", Tools: []Tool{{Name: "first"}}}
	for i := range maxPlaces / 20 {
		s.Tools = append(s.Tools, Tool{Name: fmt.Sprint("t_", i)})
	}
	c.SetServer(s)
	first := mustResolve(t, c, "many__first")
	known := func(user, tool string) bool { return c.shapes.find(user, mustResolve(t, c, tool)) != nil }
	check := func() {
		t.Helper()
		sum := 0
		for _, u := range c.shapes.users {
			of := 0
			for e := u.order.Front(); e != nil; e = e.Next() {
				of += toolPlaces + e.Value.(*learned).shape.Size()
			}
			if of != u.places || of > maxUserPlaces || u.order.Len() != len(u.tools) {
				t.Errorf("%s has %d places, counted are %d", u.user, of, u.places)
			}
			sum += of
		}
		if sum != c.shapes.places || sum > maxPlaces || c.shapes.order.Len() != len(c.shapes.users) {
			t.Errorf("all have %d places, counted are %d", sum, c.shapes.places)
		}
	}
	c.Learn("ben", first, wide(10))
	for _, tool := range c.Tools() {
		c.Learn("ann", tool, wide(40))
	}
	check()
	last := c.Tools()[len(c.Tools())-1].FullName()
	if known("ann", "many__first") || !known("ann", last) || !known("ben", "many__first") {
		t.Error("a user with many tools: the oldest of theirs is not forgotten, or more than that is")
	}
	text, err := c.For("ann").ServerDeclaration("many")
	if err != nil || strings.Count(text, "learned from earlier answers") != len(c.shapes.users["ann"].tools) {
		t.Errorf("the declaration has %d learned types, %v", strings.Count(text, "learned from earlier answers"), err)
	}
	for i := range maxPlaces / 40 {
		c.Learn(fmt.Sprint("user", i), first, wide(40))
		if i%100 == 0 {
			c.Learn("ben", first, wide(10))
		}
	}
	check()
	if known("ann", last) || known("user0", "many__first") || !known("ben", "many__first") {
		t.Error("many users: those whose last answer is the oldest are not forgotten, or others are")
	}
}

func TestLearnConcurrently(t *testing.T) {
	t.Parallel()
	c := learningCatalog()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				for _, user := range []string{"ann", "ben"} {
					c.Learn(user, mustResolve(t, c, "crm__search"), fmt.Appendf(nil, `{"id":%d,"tag%d":[%d]}`, i, j%3, j))
					c.SetServer(crm())
					_, _ = c.shapes.kept(), c.For(user).Declarations()
				}
			}
		})
	}
	wg.Wait()
	if got := c.shapes.kept(); len(got) != 2 || got[0].Answers != 200 || got[1].Answers != 200 {
		t.Errorf("%+v", got)
	}
}

func BenchmarkLearn(b *testing.B) {
	c := learningCatalog()
	tool := mustResolve(b, c, "crm__search")
	answer := json.RawMessage("[" + strings.Repeat(`{"id":1,"name":"x","tags":["a"],"owner":{"id":2,"email":"x"}},`, 50) + "{}]")
	for b.Loop() {
		c.Learn("ann", tool, answer)
	}
}
