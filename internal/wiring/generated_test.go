package wiring_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/testing/generated"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// generatedOnly is the seed of the only program to run.
var generatedOnly = flag.Uint64("generated.only", 0, "run the generated program of this seed only")

// TestGenerated runs generated programs, and replays each in another harness without servers and without the files. What a program did must follow from its
// journal alone.
func TestGenerated(t *testing.T) {
	t.Parallel()
	const users = 4
	count := generated.Count(200, 1000)
	first := generated.Seed(t)
	// No program computes or waits for long, so only a fault reaches the time limits.
	limits := map[string]string{"sandbox.timeout": "2m", "sandbox.maxWall": "5m", "sandbox.maxCalls": "40"}
	live := setup(t, limits, badServer(t, "up", misbehave.Normal))
	live.EnsureTools(t.Context(), "")
	offline := setup(t, limits)
	seeds := make(chan uint64, count)
	if *generatedOnly != 0 {
		seeds <- *generatedOnly
	} else {
		for i := range uint64(count) {
			seeds <- first + i
		}
	}
	close(seeds)
	var failed, calls atomic.Int64
	var wg sync.WaitGroup
	for user := range users {
		wg.Go(func() {
			for seed := range seeds {
				program := generate(seed)
				out, err := live.Runs().Execute(t.Context(), runs.Request{Code: program, User: fmt.Sprint("user", user)})
				if err != nil {
					t.Errorf("seed %d: %v\n%s", seed, err, program)
					return
				}
				records, err := live.Runs().Journal(t.Context(), out.RunID)
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
					return
				}
				again, err := offline.Runs().Replay(t.Context(), records, runs.Replay{})
				if err != nil {
					t.Errorf("seed %d: replay: %v", seed, err)
					return
				}
				if d := cmp.Diff(out, again); d != "" {
					t.Errorf("replay differs from the run (-run +replay); repeat it with -generated.only=%d\n%s\n%s", seed, d, program)
					return
				}
				if out.Error != nil {
					failed.Add(1)
					if k := out.Error.Kind; k != frame.KindRuntime && k != frame.KindTool && k != frame.KindCallLimit && k != frame.KindNeverSettles {
						t.Errorf("seed %d: ended as %+v\n%s", seed, out.Error, program)
					}
				}
				for _, r := range records {
					if r.Call != nil {
						calls.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	if *generatedOnly != 0 {
		t.Log(generate(*generatedOnly))
		return
	}
	t.Logf("%d programs made %d calls, %d of them failed", count, calls.Load(), failed.Load())
	if f := failed.Load(); f < int64(count/50) || f > int64(count/2) || calls.Load() < int64(5*count) {
		t.Errorf("the programs are not what the test is about: %d of %d failed, %d calls", f, count, calls.Load())
	}
}

// generator writes a program. The seed determines all choices of the generator. The choices of the program itself depend on its run.
type generator struct {
	*rand.Rand
	out   strings.Builder
	depth int
	names int
}

func generate(seed uint64) string {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, seed))}
	g.line(`const seen = []`)
	g.line(`const note = (...all) => { seen.push(all.length === 1 ? all[0] : all); return all[0] }`)
	g.line(`const attempt = async (f) => { try { return await f() } catch (e) { return note(e.name + ': ' + e.message) } }`)
	g.block(3 + g.IntN(5))
	switch g.IntN(12) {
	case 0:
		g.line(`throw new TypeError('at the end ' + seen.length)`)
	case 1:
		g.line(`return new Map([['seen', seen], ['set', new Set(seen.map(String))], ['at', new Date()]])`)
	case 2:
		g.line(`return [seen, { nested: { deep: [Math.random(), null, undefined, NaN, 'ü\u2028😀'] } }]`)
	default:
		g.line(`return { seen, random: Math.random(), now: Date.now() }`)
	}
	return g.out.String()
}

func (g *generator) line(format string, args ...any) {
	g.out.WriteString(strings.Repeat("  ", g.depth))
	fmt.Fprintf(&g.out, format, args...)
	g.out.WriteByte('\n')
}

func (g *generator) name() string {
	g.names++
	return fmt.Sprint("v", g.names)
}

func (g *generator) pick(options ...string) string { return options[g.IntN(len(options))] }

// block writes statements. The deeper a block is, the shorter it is.
func (g *generator) block(n int) {
	g.depth++
	for range max(1, n-g.depth+1) {
		g.statement()
	}
	g.depth--
}

func (g *generator) statement() {
	if g.depth > 3 {
		g.simple()
		return
	}
	switch g.IntN(16) {
	case 0:
		g.line(`try {`)
		g.block(3)
		if g.IntN(2) == 0 {
			g.line(`  throw new RangeError('thrown ' + seen.length)`)
		}
		g.line(`} catch (e) { note('caught', e.name, e.message, e instanceof ToolError) } finally {`)
		g.block(2)
		g.line(`}`)
	case 1:
		f := g.name()
		g.line(`async function %s(n) {`, f)
		g.block(3)
		g.line(`  return note(n * 2)`)
		g.line(`}`)
		g.line(`await Promise.all([%s(1), %s(2)])`, f, f)
	case 2:
		g.line(`if (Math.random() < 0.5) {`)
		g.block(2)
		g.line(`} else {`)
		g.block(2)
		g.line(`}`)
	case 3:
		i := g.name()
		g.line(`for (let %s = 0; %s < %d; %s++) {`, i, i, 1+g.IntN(3), i)
		g.block(2)
		g.line(`}`)
	case 4:
		g.line(`note((await Promise.allSettled([%s])).map((r) => r.status + ' ' + (r.reason?.name ?? JSON.stringify(r.value))))`, g.several())
	case 5:
		g.line(`await Promise.all([%s].map((p) => attempt(() => p)))`, g.several())
	case 6:
		g.line(`note('race', await Promise.race([%s].map((p) => attempt(() => p))))`, g.several())
	case 7:
		g.line(`note('any', await Promise.any([%s]).catch((e) => e.errors.length))`, g.several())
	case 8:
		g.line(`for await (const x of (async function* () { yield %s; yield %s })()) note(x)`, g.expression(), g.expression())
	default:
		g.simple()
	}
}

func (g *generator) simple() {
	switch g.IntN(14) {
	case 0:
		t := g.name()
		g.line(`const %s = setTimeout((x) => note('timeout', x), %d, '%s')`, t, g.IntN(4), t)
		if g.IntN(2) == 0 {
			g.line(`%sclearTimeout(%s)`, g.pick("", "await utils.sleep(1); ", "queueMicrotask(() => note('micro')); "), t)
		}
	case 1:
		g.line(`await new Promise((done) => { let n = 0; const h = setInterval(() => { note('tick', n); if (++n >= %d) { clearInterval(h); done() } }, %d) })`,
			1+g.IntN(3), g.IntN(2))
	case 2:
		g.line(`console.%s('line', seen.length, %s, new Date(), { at: performance.now() })`, g.pick("log", "warn", "error", "info"), g.value())
	case 3:
		g.line(`note(%s)`, g.pick(`Math.random()`, `Date.now()`, `performance.now()`, `new Date().toISOString()`, `crypto.randomUUID()`,
			`[...crypto.getRandomValues(new Uint8Array(3))]`, `utils.timestamp()`))
	case 4:
		g.line(`%s.then((x) => note('later', x), (e) => note('failed later', e.name))`, g.expression())
	case 5:
		g.line(`queueMicrotask(() => note('micro', seen.length))`)
	case 6:
		if g.IntN(12) == 0 {
			g.line(`throw new Error('thrown for good, ' + seen.length)`)
			return
		}
		g.line(`note(structuredClone({ list: [1, %s], map: new Map([[1, 2]]).size }))`, g.value())
	case 7:
		g.line(`note(await %s)`, g.expression()) // may fail the run
	case 8:
		g.line(`note(await attempt(async () => require('/skills/%s.js').n))`, g.pick("a", "b", "none"))
	case 9:
		g.line(`note(new Date(Math.floor(Math.random() * 1e12)).toLocaleString('en-US', { timeZone: '%s' }))`, g.pick("Europe/Berlin", "America/New_York", "UTC"))
	default:
		g.line(`note(await attempt(() => %s))`, g.expression())
	}
}

// several returns an array of some promises.
func (g *generator) several() string {
	all := make([]string, 2+g.IntN(4))
	for i := range all {
		all[i] = g.expression()
	}
	return strings.Join(all, ", ")
}

func (g *generator) value() string {
	return g.pick(`Math.random()`, `Date.now()`, `seen.length`, `'text'`, `[1, { two: 2 }]`, `null`, `true`)
}

// expression returns an expression for a promise, usually of a call.
func (g *generator) expression() string {
	file := "/workspace/" + g.pick("a", "b", "c") + ".txt"
	switch g.IntN(22) {
	case 0, 1, 2:
		return fmt.Sprintf(`tools.up.echo({ zeta: String(%s), alpha: %d })`, g.value(), g.IntN(9))
	case 3:
		return fmt.Sprintf(`callMCPTool('up__echo', { mid: Math.random() < 0.5, x: %s })`, g.value())
	case 4:
		return `tools.up.echo({ alpha: 'no number' })`
	case 5:
		return `tools.up.error({})`
	case 6:
		return `callMCPTool('up__` + g.pick("rpc-error", "wrapped", "wrong-ids", "nothing") + `', {})`
	case 7:
		return `utils.sleep(` + g.pick("0", "1", "2", "Math.random() * 3") + `)`
	case 8, 9:
		return fmt.Sprintf(`fs.writeFile('%s', 'w' + %s)`, file, g.value())
	case 10:
		return fmt.Sprintf(`fs.appendFile('%s', ',' + seen.length)`, file)
	case 11, 12:
		return fmt.Sprintf(`fs.readFile('%s')`, file)
	case 13:
		return fmt.Sprintf(`fs.rename('%s', '/workspace/%s.txt')`, file, g.pick("a", "d"))
	case 14:
		return `fs.` + g.pick(`listFiles('/workspace')`, `exists('/workspace/a.txt')`, `deleteFile('/workspace/b.txt')`, `stat('/workspace/none')`, `readdir('./servers')`)
	case 15:
		return g.pick(`list_mcp_tools()`, `search_mcp_tools('echo', { limit: 2 })`, `introspect_servers()`, `get_mcp_tool_details('up__nothing')`, `list_server_functions('up')`)
	case 16:
		return fmt.Sprintf(`fs.writeFile('/skills/%s.js', 'exports.n = ' + seen.length)`, g.pick("a", "b"))
	case 17:
		return fmt.Sprintf(`import('/skills/%s.js').then((m) => m.n)`, g.pick("a", "b"))
	case 18:
		return fmt.Sprintf(`Promise.resolve(%s).then((x) => note(x))`, g.value())
	case 19:
		return `Promise.reject(new Error('rejected ' + seen.length))`
	case 20:
		return fmt.Sprintf(`(async () => { await %s; return %s })()`, g.pick(`utils.sleep(1)`, `null`, `tools.up.echo({})`), g.value())
	default:
		return `new Promise((resolve) => setTimeout(resolve, 1, 'timer'))`
	}
}
