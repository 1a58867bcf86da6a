package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/pii/seal"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/sandbox"
)

// answers is an upstream that answers every call after a fixed time.
type answers struct {
	gate.Servers // nil, because no figure calls methods that answers does not define
	after        time.Duration
}

func (answers) EnsureTools(context.Context, string)                    {}
func (answers) Connect(context.Context, string, string) (int64, error) { return 1, nil }
func (answers) Unavailable(string) []*mcpclient.CallError              { return nil }
func (answers) Stateful(string) bool                                   { return false }

func (a answers) Call(ctx context.Context, _, _ string, args json.RawMessage, _ mcpclient.CallOptions) (*mcpclient.Result, error) {
	if a.after > 0 {
		timer := time.NewTimer(a.after)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &mcpclient.Result{StructuredContent: args, Raw: args, Conn: 1}, nil
}

// tools returns a catalog with one read-only tool, bench__echo.
func tools() *catalog.Catalog {
	yes := true
	c := catalog.New()
	c.SetServer(catalog.Server{Name: "bench", Tools: []catalog.Tool{{
		Server: "bench", Name: "echo", Description: "Answers with its input.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"number"}}}`),
		Annotations: catalog.Annotations{ReadOnly: &yes},
	}}})
	return c
}

var sequence atomic.Int64

// exec runs a program from source to outcome, as the harness does, with a stand-in for the upstream servers.
func (b *bench) exec(ctx context.Context, keep journals, upstream gate.Servers, cache *program.Cache, code string) error {
	return b.execFor(ctx, b.pool, "bench", keep, upstream, cache, code)
}

func (b *bench) execFor(ctx context.Context, pool *sandbox.Pool, user string, keep journals, upstream gate.Servers, cache *program.Cache, code string) error {
	id := fmt.Sprintf("run_bench%d", sequence.Add(1))
	compiled, err := program.Compile(ctx, program.Source{Code: code}, program.Options{Cache: cache})
	if err != nil {
		return err
	}
	text, err := json.Marshal(compiled.Program)
	if err != nil {
		return err
	}
	writer, err := keep.Create(ctx, id)
	if err != nil {
		return err
	}
	defer writer.Close(ctx)
	info := pool.Info()
	out, err := run.Execute(ctx, &run.Spec{
		Start: journal.Start{
			Run: id, User: user, Source: code, Program: text, Map: compiled.Map.String(), Seed: strings.Repeat("5a", 32),
			Time: time.Now().UnixMicro(), Tier: info.Tier, Engine: info.Engine, Prelude: info.Prelude,
		},
		Owner: user, Journal: writer, Runners: pool, Now: time.Now,
		Gate: gate.New(gate.Options{Catalog: b.catalog, Servers: upstream, Now: time.Now}).Open(gate.Scope{
			Run: id, User: user, MaxCalls: 1e6, MaxValue: 8 << 20, Privacy: b.privacy.In(user, id),
		}),
		Privacy: b.privacy.In(user, id),
		Locate:  func(e *frame.Error) *run.Error { return &run.Error{Kind: e.Kind, Message: e.Message} },
		Limits: run.Limits{
			Timeout: time.Minute, MaxWall: time.Minute, Memory: 100 << 20, MaxOutput: 1 << 20, MaxHostCalls: 1e6, MaxInFlight: 100, MaxValue: 8 << 20,
		},
	})
	if err != nil {
		return err
	}
	if out.Error != nil {
		return fmt.Errorf("%s: %s", out.Error.Kind, out.Error.Message)
	}
	return nil
}

func (b *bench) compiled(ctx context.Context) (Figure, error) {
	cache := program.NewCache()
	return b.times(500, Figure{Budget: 1, Note: "warm runner, journal in SQLite"}, func() error {
		return b.exec(ctx, b.store, answers{}, cache, "return 1")
	})
}

func (b *bench) neverSeen(ctx context.Context) (Figure, error) {
	cache := program.NewCache()
	return b.times(300, Figure{Budget: 2.5, Note: "TypeScript compiled each time"}, func() error {
		return b.exec(ctx, b.store, answers{}, cache, fmt.Sprintf("const n: number = %d; return n", sequence.Load()))
	})
}

// perCall measures the time of one sequential tool call: the difference between a program with many calls and one with few.
func (b *bench) perCall(ctx context.Context, keep journals, budget float64) (Figure, error) {
	const few, many = 10, 510
	cache := program.NewCache()
	var all []time.Duration
	for range b.repetitions(20) + 1 {
		var took [2]time.Duration
		for i, n := range []int{few, many} {
			began := time.Now()
			code := fmt.Sprintf("for (let i = 0; i < %d; i++) await callMCPTool('bench__echo', {n: i})", n)
			if err := b.exec(ctx, keep, answers{}, cache, code); err != nil {
				return Figure{}, err
			}
			took[i] = time.Since(began)
		}
		all = append(all, (took[1]-took[0])/(many-few))
	}
	return Figure{Unit: "us", Budget: budget, Note: "gate and frames, no upstream"}.of(all[1:], time.Microsecond), nil
}

// privateCall measures the time that privacy adds to a call whose input and answer have 1 KiB and three values of personal data. The time is the
// difference between runs with and without privacy, which alternate.
func (b *bench) privateCall(ctx context.Context) (Figure, error) {
	filter, err := b.filter()
	if err != nil {
		return Figure{}, err
	}
	const calls = 500
	text := strings.Repeat("All orders were shipped in time and nothing is left to be done. ", 14)
	code := fmt.Sprintf(`for (let i = 0; i < %d; i++) await callMCPTool('bench__echo', {n: i, name: 'Ann', mail: 'ann@example.com',
		phone: '+1 202-555-0143', ip: '203.0.113.9', text: %q})`, calls, text)
	cache := program.NewCache()
	defer func() { b.privacy = nil }()
	var all []time.Duration
	for range b.repetitions(20) + 1 {
		var took [2]time.Duration
		for i, privacy := range []*pii.Filter{nil, filter} {
			b.privacy = privacy
			began := time.Now()
			if err := b.exec(ctx, b.store, answers{}, cache, code); err != nil {
				return Figure{}, err
			}
			took[i] = time.Since(began)
		}
		all = append(all, (took[1]-took[0])/calls)
	}
	return Figure{Unit: "us", Budget: 60, Note: "journal and vault in SQLite, 3 values in input and answer"}.of(all[1:], time.Microsecond), nil
}

// filter returns a filter of personal data whose vault is in the store.
func (b *bench) filter() (*pii.Filter, error) {
	detector, err := detect.New(detect.Options{})
	if err != nil {
		return nil, err
	}
	keys, err := seal.New("the bench", []byte("bench of the harness, 32 bytes or more"))
	if err != nil {
		return nil, err
	}
	return pii.New(pii.Options{
		Detector: detector, Types: detector.Types(), Now: time.Now,
		Vault: func() (pii.Vault, error) { return b.store.Vault(), nil }, Keys: func() (*seal.Keys, error) { return keys, nil },
	}), nil
}

// dense is an upstream that answers every call with a text that consists of personal data.
type dense struct {
	answers
	text   json.RawMessage // a JSON text
	called chan<- error    // receives nil when the first call comes
}

func (d dense) Call(context.Context, string, string, json.RawMessage, mcpclient.CallOptions) (*mcpclient.Result, error) {
	select {
	case d.called <- nil:
	default:
	}
	return &mcpclient.Result{StructuredContent: d.text, Raw: d.text, Conn: 1}, nil
}

// hostileSender measures how much slower small runs of one user become while a second user is active. Runs of the second user receive 8 MiB of
// personal data again and again, and the filter has to hide this data. The figure is a factor. Windows with and without the second user alternate,
// so that a busy machine slows both.
func (b *bench) hostileSender(ctx context.Context) (Figure, error) {
	const rounds, window, senders = 10, 300, 2
	var err error
	if b.privacy, err = b.filter(); err != nil {
		return Figure{}, err
	}
	defer func() { b.privacy = nil }()
	var text strings.Builder
	text.WriteString(`{"text":"`)
	for i := 0; text.Len() < 8<<20-64; i++ {
		fmt.Fprintf(&text, "p%d@d%d.example.com +1 202-555-%04d ", i%100_000, i%1000, i%10_000)
	}
	text.WriteString(`"}`)
	cache := program.NewCache()
	small := func() (Figure, error) {
		return b.times(window, Figure{}, func() error {
			return b.execFor(ctx, b.pool, "small", b.store, answers{}, cache,
				"return (await callMCPTool('bench__echo', {mail: 'ann@example.com', phone: '+1 202-555-0143', ip: '203.0.113.9'})).mail")
		})
	}
	beside := func() (Figure, error) {
		sending, stop := context.WithCancel(ctx)
		var all sync.WaitGroup
		defer all.Wait()
		defer stop()
		called := make(chan error, 1)
		upstream := dense{text: json.RawMessage(text.String()), called: called}
		for range senders {
			all.Go(func() {
				for sending.Err() == nil {
					err := b.execFor(sending, b.pool, "hostile", b.store, upstream, cache, "return (await callMCPTool('bench__echo', {})).text.length")
					if err != nil { // includes runs that are cancelled at the end, and runs that take too long
						select {
						case called <- err:
						default:
						}
					}
				}
			})
		}
		if err := <-called; err != nil {
			return Figure{}, err
		}
		return small()
	}
	var ratios []float64
	for range b.repetitions(rounds) {
		alone, err := small()
		if err != nil {
			return Figure{}, err
		}
		slowed, err := beside()
		if err != nil {
			return Figure{}, err
		}
		ratios = append(ratios, slowed.P50/alone.P50)
	}
	slices.Sort(ratios)
	return Figure{
		Unit: "times", P50: ratios[len(ratios)/2], P95: ratios[len(ratios)*95/100], Budget: 2,
		Note: fmt.Sprintf("another user's 8 MiB, %d at a time; median of windows", senders),
	}, nil
}

// memory is a journal that keeps the records of a run in memory until the run ends.
type memory struct{}

func (memory) Create(context.Context, string) (journal.Writer, error) {
	return &memoryWriter{Writer: journal.Discard}, nil
}

type memoryWriter struct {
	journal.Writer
	mu      sync.Mutex
	records []journal.Record
}

func (w *memoryWriter) Append(r journal.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records = append(w.records, r)
}

// journals creates the journals of runs.
type journals interface {
	Create(ctx context.Context, run string) (journal.Writer, error)
}

func (b *bench) parallel(ctx context.Context) (Figure, error) {
	cache := program.NewCache()
	const calls = "await Promise.all(Array.from({length: 100}, (_, n) => callMCPTool('bench__echo', {n})))"
	return b.times(30, Figure{Budget: 20}, func() error {
		return b.exec(ctx, b.store, answers{after: 10 * time.Millisecond}, cache, calls)
	})
}

func (b *bench) throughput(ctx context.Context) (Figure, error) {
	cache := program.NewCache()
	each := b.repetitions(1000)
	workers := runtime.GOMAXPROCS(0)
	var rates []float64
	for range 4 {
		began := time.Now()
		err := together(workers, func(int) error {
			for range each {
				if err := b.exec(ctx, b.store, answers{}, cache, "return 1"); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return Figure{}, err
		}
		rates = append(rates, float64(each*workers)/time.Since(began).Seconds())
	}
	return Figure{Unit: "/s", P50: slices.Max(rates), Budget: 1000, AtLeast: true, Note: fmt.Sprintf("%d at a time, best of 4, journal in SQLite", workers)}, nil
}

func (b *bench) search(ctx context.Context) (Figure, error) {
	c := catalog.New()
	verbs := []string{"create", "list", "update", "delete", "search", "export", "assign", "archive", "merge", "count"}
	nouns := []string{"invoice", "customer", "ticket", "branch", "message", "calendar event", "document", "deployment", "contact", "report"}
	for s := range 50 {
		server := catalog.Server{Name: fmt.Sprintf("server%d", s)}
		for i := range 100 {
			verb, noun := verbs[i%10], nouns[i/10]
			server.Tools = append(server.Tools, catalog.Tool{
				Server: server.Name, Name: verb + "_" + strings.ReplaceAll(noun, " ", "_"),
				Description: fmt.Sprintf("%s a %s of team %d, with all of its fields and history.", verb, noun, s),
				InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string","description":"which one"}}}`),
			})
		}
		c.SetServer(server)
	}
	c.Search(ctx, "", "warm up", 10)
	return b.times(500, Figure{Budget: 1}, func() error {
		if len(c.Search(ctx, "", "find the invoices of a customer and send a message about them", 10)) == 0 {
			return fmt.Errorf("nothing found")
		}
		return nil
	})
}

// manyUsers measures the rate of programs when there are more users than runners. Each user needs a runner of their own, so every
// run includes the start of a worker.
func (b *bench) manyUsers(ctx context.Context) (Figure, error) {
	const runners = 8
	p := sandbox.NewPool(b.tier, sandbox.PoolOptions{Size: runners})
	defer p.Close()
	cache := program.NewCache()
	users := max(b.repetitions(300), runners+2) // more users than runners, so that later users replace earlier ones
	var next atomic.Int64
	began := time.Now()
	err := together(runners/2, func(int) error {
		for n := next.Add(1); n <= int64(users); n = next.Add(1) {
			if err := b.execFor(ctx, p, fmt.Sprint("user", n), b.store, answers{}, cache, "return 1"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Figure{}, err
	}
	return Figure{
		Unit: "/s", P50: float64(users) / time.Since(began).Seconds(), Budget: 80, AtLeast: true,
		Note: fmt.Sprintf("%d users, %d runners, %d at a time, journal in SQLite", users, runners, runners/2),
	}, nil
}

// together calls f n times at the same time and returns its errors.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// instant is a tier whose runners start at once and do nothing, so that a figure measures only the pool.
type instant struct{ sandbox.Sandbox }

func (instant) Start(context.Context) (sandbox.Runner, error) {
	return &instantRunner{frames: make(chan *frame.Frame, 1)}, nil
}

type instantRunner struct {
	frames chan *frame.Frame
	once   sync.Once
}

func (r *instantRunner) Send(*frame.Frame) error {
	r.frames <- &frame.Frame{T: frame.Ready}
	return nil
}
func (r *instantRunner) Frames() <-chan *frame.Frame { return r.frames }
func (r *instantRunner) Err() error                  { return nil }
func (r *instantRunner) Kill()                       { r.once.Do(func() { close(r.frames) }) }
func (r *instantRunner) Pid() int                    { return 0 }

// manyWaiters measures the rate of programs of 50 ms while 1,000 of them wait, as a percentage of the rate that 64 runners can reach.
func (b *bench) manyWaiters(ctx context.Context) (Figure, error) {
	const runners, waiters, owners, took = 64, 1000, 10, 50 * time.Millisecond
	p := sandbox.NewPool(instant{}, sandbox.PoolOptions{Size: runners})
	defer p.Close()
	programs := int64(max(b.repetitions(6400), 2*runners))
	var next atomic.Int64
	began := time.Now()
	err := together(waiters, func(i int) error {
		for next.Add(1) <= programs {
			l, err := p.Acquire(ctx, fmt.Sprint("owner", i%owners))
			if err != nil {
				return err
			}
			time.Sleep(took)
			l.Release(true)
		}
		return nil
	})
	if err != nil {
		return Figure{}, err
	}
	ideal := time.Duration(programs) * took / runners
	return Figure{
		Unit: "%", P50: 100 * ideal.Seconds() / time.Since(began).Seconds(), Budget: 90, AtLeast: true,
		Note: fmt.Sprintf("of the ideal rate; %d owners, programs of %s, runners that start at once", owners, took),
	}, nil
}

func (b *bench) coldWorker(ctx context.Context) (Figure, error) {
	return b.times(20, Figure{Budget: 15, Note: "process, compiled code, snapshot, until ready"}, func() error {
		r, err := b.tier.Start(ctx)
		if err != nil {
			return err
		}
		r.Kill()
		for range r.Frames() {
		}
		return nil
	})
}

func (b *bench) coldBinary(ctx context.Context) (Figure, error) {
	return b.times(20, Figure{Budget: 12, Note: "harness version, start to end of the process"}, func() error {
		cmd := exec.CommandContext(ctx, b.opt.Executable, "version")
		cmd.Env = []string{}
		return cmd.Run()
	})
}
