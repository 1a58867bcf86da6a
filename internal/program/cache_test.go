package program

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCache(t *testing.T) {
	t.Parallel()
	files := map[string]string{"/skills/a.js": "exports.a = 1"}
	opts := Options{Resolver: sandbox{files: files}, Cache: NewCache()}
	const code = "import { a } from '/skills/a.js'\nreturn a"
	first := mustCompile(t, code, opts)
	again := mustCompile(t, code, opts)
	if diff := cmp.Diff(first.Program, again.Program); diff != "" {
		t.Errorf("cached (-first +again):\n%s", diff)
	}
	for _, id := range []string{ProgramFile, "/skills/a.js"} {
		if first.Map[id] != again.Map[id] {
			t.Errorf("the second compilation of %s was not served from the cache", id)
		}
	}
	files["/skills/a.js"] = "exports.a = 2"
	if changed := mustCompile(t, code, opts); !strings.Contains(changed.Program.Modules[0].Code, "a = 2") {
		t.Errorf("a changed skill was taken from the cache: %s", changed.Program.Modules[0].Code)
	}
	// Adding to the map of one program does not change the map of the other.
	first.AddMap(SourceMap{"/skills/b.js": {}})
	if mustCompile(t, code, opts).Map["/skills/b.js"] != nil {
		t.Error("programs share a map")
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := NewCache()
	for i := range 100 {
		c.put(keyOf(fmt.Sprint(i)), i, cacheBytes/10)
	}
	if c.size > cacheBytes || len(c.entries) != 10 || c.recent.Len() != 10 {
		t.Errorf("the cache holds %d bytes in %d entries, %d in order", c.size, len(c.entries), c.recent.Len())
	}
	if _, ok := get[int](c, keyOf("99")); !ok {
		t.Error("the newest entry is gone")
	}
	get[int](c, keyOf("90"))
	c.put(keyOf("new"), -1, cacheBytes/10)
	if _, ok := get[int](c, keyOf("90")); !ok {
		t.Error("an entry that was just used was dropped")
	}
	c.put(keyOf("huge"), -1, cacheBytes)
	if _, ok := get[int](c, keyOf("huge")); ok {
		t.Error("an entry larger than its share was kept")
	}
	var none *Cache
	none.put(keyOf("x"), 1, 1)
	if _, ok := get[int](none, keyOf("x")); ok {
		t.Error("no cache kept something")
	}
}

func TestConcurrentCompile(t *testing.T) {
	t.Parallel()
	opts := Options{
		Cache:    NewCache(),
		Resolver: sandbox{files: map[string]string{"/skills/a.ts": "export const a: number = 1"}},
	}
	want := mustCompile(t, "import { a } from '/skills/a'; return a + 3", Options{Resolver: opts.Resolver}).Program
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 10 {
				c := mustCompile(t, fmt.Sprintf("import { a } from '/skills/a'; return a + %d", i), opts)
				if i == 3 && c.Program.Code != want.Code {
					t.Errorf("compiled to %s, want %s", c.Program.Code, want.Code)
				}
			}
		})
	}
	group.Wait()
}

const benchmarkProgram = `const sales: Sale[] = await callMCPTool('database__query', { query: 'SELECT * FROM sales' });
interface Sale { amount: number; region: string }
const totals = new Map<string, number>();
for (const { region, amount } of sales) {
  totals.set(region, (totals.get(region) ?? 0) + amount);
}
console.log(` + "`${totals.size} regions`" + `);
return Object.fromEntries(totals);
// `

// BenchmarkCompileNew compiles small programs that the cache does not hold: budget 1.5 ms.
func BenchmarkCompileNew(b *testing.B) {
	opts := Options{Cache: NewCache()}
	n := 0
	for b.Loop() {
		n++
		mustCompile(b, benchmarkProgram+fmt.Sprint(n), opts)
	}
}

// BenchmarkCompileCached compiles the same program again.
func BenchmarkCompileCached(b *testing.B) {
	opts := Options{Cache: NewCache()}
	for b.Loop() {
		mustCompile(b, benchmarkProgram, opts)
	}
}
