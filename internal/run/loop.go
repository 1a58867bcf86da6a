package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/jsontext"
	"mcp-code-exec-harness/internal/sandbox"
)

// Execute runs the program of spec to its end and returns its outcome. The error is a failure of the harness itself (no
// runner, no space for the journal); a program that fails is an outcome. If ctx is cancelled, the program ends as cancelled. If the
// cause is ErrHandedOver, the run is left to be resumed and Execute returns that error. Execute clears spec, so that a run without a
// runner keeps nothing in memory that it can read again.
func Execute(ctx context.Context, spec *Spec) (*Outcome, error) {
	first, release := spec.only()
	var lease *sandbox.Lease
	if first == nil {
		var err error
		if lease, err = spec.Runners.Acquire(ctx, spec.Owner); err != nil {
			return nil, fmt.Errorf("get a runner: %w", err)
		}
	}
	l := newLoop(spec)
	if first == nil {
		l.use(lease, l.spec.Records)
	} else {
		l.leg = newLeg(nil, nil, l.spec.Start.Time)
		l.detachment.state, l.detachment.release = detached, release
	}
	l.execute(ctx, first)
	l.spec.Turn.Rest()
	if l.detachment.hasRunner() {
		l.guest.runner.Release(l.guest.clean && l.phase != failed)
	}
	l.release()
	return l.finish()
}

// loop is one execution of a run. Its goroutine owns all fields; calls in flight send their answers on results.
type loop struct {
	spec    Spec
	journal journal.Writer // discards all records when the run is offline
	began   time.Time
	leg

	latest     int64 // time of the last recorded answer
	answers    int   // number of recorded asynchronous answers
	calls      calls
	methods    func() []string // returns the methods that the program's code names
	timers     timers          // pending timers
	results    chan result
	jobs       chan func()       // jobs for the goroutine that waits in serve
	serving    atomic.Bool       // reports that a goroutine waits in serve
	suspended  *approval.Request // request that the run waits for
	over       chan struct{}     // closed when no more results are read
	late       []*journal.Answer // answers that came after the end; stored with the end
	detachment detachment

	used     atomic.Int64 // nanoseconds of computing by the guest, and by the host for the guest
	deadline *time.Timer  // deadline of the guest's computing, or time of the next check of an idle runner
	kill     <-chan time.Time
	unsaved  unsaved

	phase   phase
	reason  *Error       // reason of an ending that the host decided
	done    *frame.Frame // last frame of the program, once the run is over
	failure error        // failure of the harness itself

	cancelCalls context.CancelFunc
	intents     sync.Mutex // held while a call records an intent; guards noIntents
	noIntents   bool       // reports that the calls have been cancelled
	effects     effects
}

// leg is the state of the program on one runner. On another runner the program is replayed from the beginning.
type leg struct {
	guest    guest
	cursor   *journal.Cursor
	again    bool // reports that the run has had a runner before
	replayed int  // number of answers that must be delivered on this runner before computing counts

	now       int64 // latest time that the guest got, in microseconds since the Unix epoch
	hostCalls int   // number of calls that the guest has made
	toolCalls int
	busy      int // number of unanswered calls that count towards MaxInFlight
	delivered int // number of asynchronous answers given to the guest
	crossed   int // bytes of arguments and answers

	idled  int             // number of answers that the guest had taken at its last idle frame; -1 before the first
	raised map[string]bool // kinds of errors in the answers that the guest got

	logs     []Log
	logBytes int
}

// result is the gate's answer to one call.
type result struct {
	n     int
	value json.RawMessage
	err   *frame.Error
}

func newLoop(spec *Spec) *loop {
	defer func() { *spec = Spec{} }()
	return &loop{
		spec: *spec, phase: running, journal: cmp.Or[journal.Writer](spec.Journal, journal.Discard), began: spec.Now(), calls: newCalls(),
		results: make(chan result, 16), over: make(chan struct{}), jobs: make(chan func()), timers: newTimers(), detachment: newDetachment(),
	}
}

// use begins a leg on a runner with the records so far.
func (l *loop) use(runner *sandbox.Lease, records []journal.Record) {
	l.spec.Turn.Bind(runner.Runner)
	l.calls.forget()
	l.leg = newLeg(runner, records, l.spec.Start.Time)
	l.answers = l.cursor.Deliveries()
	l.replayed = l.answers
}

func newLeg(runner *sandbox.Lease, records []journal.Record, start int64) leg {
	return leg{
		guest: guest{runner: runner, activity: resting, idleSince: -1}, cursor: journal.NewCursor(records), now: start,
		idled: -1, raised: map[string]bool{},
	}
}

// execute exchanges frames with the runner until the program has ended. first is the call of a run that begins without a runner.
func (l *loop) execute(ctx context.Context, first *frame.Frame) {
	l.used.Store(int64(l.spec.Computed))
	// The end of ctx does not cancel calls, because their errors would be recorded as answers. The loop cancels them when it has decided how
	// the run ends.
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancelCalls = cancel
	defer l.endCalls()
	if len(l.spec.Records) == 0 {
		start := l.spec.Start
		l.journal.Append(journal.Record{Start: &start})
	}
	l.deadline = time.NewTimer(l.spec.Limits.Timeout)
	defer l.deadline.Stop()
	// This cannot be time.After in the select, because each iteration would start it again.
	wall, cancelWall := context.WithTimeout(context.WithoutCancel(ctx), max(l.spec.Limits.MaxWall-l.spec.Resume.Elapsed, 0))
	defer cancelWall()
	defer l.timers.alarm.Stop()
	defer l.detachment.alarm.Stop()
	l.unsaved.due = time.After(saveAfter)
	if l.spec.Stored != nil {
		if l.commit(ctx); l.phase == running {
			l.spec.Stored()
		}
	}
	switch {
	case l.phase == failed: // nothing of the run is stored
	case first != nil:
		l.deadline.Stop()
		l.call(calls, first)
	default:
		l.fail(l.start())
	}
	cancelled, outlasted := ctx.Done(), wall.Done()
	for l.phase == running || l.phase == stopping {
		select {
		case f, ok := <-l.frames():
			if !ok {
				l.lost()
				continue
			}
			l.frame(calls, f)
		case r := <-l.results:
			l.answered(calls, r)
		case <-l.spec.Turn.Granted():
			l.granted()
		case <-l.timers.alarm.C:
			l.answered(calls, l.timers.due()...)
		case <-l.deadline.C:
			l.expired()
		case <-l.detachment.alarm.C:
			l.detach(ctx)
		case back := <-l.detachment.back:
			l.reattached(ctx, back)
		case <-outlasted:
			outlasted = nil
			l.end(frame.KindTimeout, fmt.Sprintf("the run took longer than %s, waiting included", l.spec.Limits.MaxWall))
		case <-l.unsaved.due:
			l.commit(ctx)
		case <-cancelled:
			cancelled = nil
			if errors.Is(context.Cause(ctx), ErrHandedOver) {
				l.fail(ErrHandedOver)
				continue
			}
			l.end(frame.KindCancelled, "the run was cancelled")
		case <-l.kill:
			l.guest.runner.Kill()
		}
		l.suspend(calls)
	}
}

// endCalls cancels the calls in flight. After endCalls none of them records an intent.
func (l *loop) endCalls() {
	l.intents.Lock()
	defer l.intents.Unlock()
	l.noIntents = true
	l.cancelCalls()
}

// start sends the program to the runner.
func (l *loop) start() error {
	var program frame.Program
	if err := json.Unmarshal(l.spec.Start.Program, &program); err != nil {
		return fmt.Errorf("read the compiled program: %w", err)
	}
	limits := l.spec.Limits
	var input *frame.Input
	if in := l.spec.Start.Input; in != nil {
		input = &frame.Input{Name: in.Name, Format: in.Format, Size: in.Size}
	}
	l.compute()
	l.methods = program.Named
	l.send(&frame.Frame{
		T: frame.Start, Run: l.spec.Start.Run, Now: l.now, Program: &program, Seed: l.spec.Start.Seed, Env: l.spec.Start.Env, Input: input,
		Tokens: l.spec.Start.Tokens, Methods: l.named(l.spec.Start.Tokens),
		Limits: &frame.Limits{Memory: limits.Memory, InFlight: limits.MaxInFlight, MaxValue: limits.MaxValue},
	})
	return nil
}

// frame handles a frame of the runner. The guest wrote the frame, so its content is trusted only for the guest's own run.
func (l *loop) frame(ctx context.Context, f *frame.Frame) {
	if f.Run != l.spec.Start.Run {
		return
	}
	if (l.phase != running || l.detachment.state == detaching) && f.T != frame.Done {
		return
	}
	switch f.T {
	case frame.Call:
		l.call(ctx, f)
	case frame.Log:
		l.log(ctx, Log{Level: f.Level, Text: f.Text})
	case frame.Idle:
		// A guest is idle once after its start and once after each answer. Any other idle frame breaks the protocol.
		if f.Taken <= l.idled {
			l.end(frame.KindCrash, "the runner broke the protocol: it was idle without having taken an answer")
			return
		}
		l.idled = f.Taken
		l.timers.step()
		if f.Taken == l.delivered {
			l.rest()
			l.deliverRecorded(ctx)
		}
		l.answered(ctx, l.timers.due()...)
	case frame.Done:
		if l.guest.clean = true; l.detachedNow() {
			return
		}
		l.finished(f)
	}
}

// call handles a new host call. The answer comes from the record if there is one, otherwise from the gate.
func (l *loop) call(ctx context.Context, f *frame.Frame) {
	l.hostCalls++
	if f.ID != l.hostCalls {
		l.end(frame.KindCrash, fmt.Sprintf("the runner numbered a call %d where %d was due", f.ID, l.hostCalls))
		return
	}
	if l.hostCalls > l.spec.Limits.MaxHostCalls {
		l.end(frame.KindCallLimit, fmt.Sprintf("the program made more than %d host calls (sandbox.maxHostCalls)", l.spec.Limits.MaxHostCalls))
		return
	}
	if over := l.oversized(f); over != nil {
		l.stop(over)
		return
	}
	if f.Kind == frame.Tool {
		l.toolCalls++
	}
	call := &journal.Call{N: f.ID, Kind: string(f.Kind), Name: f.Name, Args: f.Args, Sync: f.Sync}
	if f.Kind == frame.Tool {
		call.Args = jsontext.Compact(call.Args) // removes duplicate keys, because a server might not use the same duplicate as the gate
	}
	recorded := l.cursor.Call(call.N)
	if recorded != nil {
		if err := l.cursor.Match(call); err != nil {
			l.diverged(err)
			return
		}
		call = recorded
	} else if err := l.redactCall(ctx, call); err != nil {
		l.unredacted(err)
		return
	}
	c := l.calls.make(l, call)
	if counted(f.Kind, f.Sync) {
		l.busy++
	}
	if l.cross(len(call.Name) + len(call.Args)); l.phase != running {
		return
	}
	if f.Sync {
		l.block()
	}
	answer := l.cursor.Answer(call.N)
	if recorded == nil || !l.again { // otherwise effects and observer know the call already
		l.effects.made(call, l.cursor.Intent(call.N) != nil)
		l.effects.replayed(answer)
		l.observe(Event{Call: call})
		if answer != nil {
			l.observe(Event{Answer: answer})
		}
	}
	if c.state == undecided { // otherwise the call was decided when the run had another runner
		l.decide(ctx, c, answer)
	}
}

// decide determines how a call is answered. answer is the recorded answer, or nil if there is none.
func (l *loop) decide(ctx context.Context, c *hostCall, answer *journal.Answer) {
	given := answer != nil && !answer.Undelivered()
	switch {
	case given:
		if c.to(answered); c.call.Sync {
			l.deliver(answer)
		} // otherwise the answer is delivered when the guest is idle
	case l.spec.Offline && l.cursor.Call(c.call.N) == nil:
		l.unrecorded(c.call)
	case l.spec.Offline || answer != nil:
		if c.to(unanswered); l.spec.Offline && c.call.Sync {
			l.offlineEnd() // the blocked guest will never be idle
		}
	case !c.call.Sync && (l.replaying() || l.calls.count[held] > 0):
		c.to(held)
	default:
		if c.call.Sync {
			l.performHeld(ctx) // the held calls come first
		}
		l.perform(ctx, c)
	}
}

// perform starts a timer, or lets the gate answer a call. Serial calls (those that change files) go one after another. The
// answer to a serial call is recorded before the next call begins, and is committed together with the intent of the next
// call. So only the last serial call can be in doubt.
func (l *loop) perform(ctx context.Context, c *hostCall) {
	call := c.call
	if l.cursor.Call(call.N) == nil {
		l.journal.Append(journal.Record{Call: call})
	}
	if frame.Kind(call.Kind) == frame.Timer && !call.Sync {
		if err := l.timers.add(call, l.spec.Resume.Timers); err != nil {
			l.end(frame.KindCrash, err.Error())
			return
		}
		c.to(timed)
		return
	}
	if c.release = l.spec.Args.hold(l.spec.Owner, len(call.Args)); c.release == nil {
		l.end(frame.KindCallLimit, fmt.Sprintf(
			"the arguments of calls that this user's programs have in flight have more than %d MiB: await some calls before making more", argsEach>>20))
		return
	}
	c.perform = l.spec.Gate.Prepare(call, l.cursor.Intent(call.N))
	if l.spec.Gate.Serial(call) {
		l.calls.serial = append(l.calls.serial, c)
		if len(l.calls.serial) > 1 {
			c.to(serial)
			return
		}
	}
	l.do(ctx, c)
}

// answered handles the given results and all others that have arrived meanwhile. Their answers get the same time. Every answer is in the
// journal before the guest sees it, and committed before anyone else sees its effects.
func (l *loop) answered(ctx context.Context, results ...result) {
	for more := true; more; {
		select {
		case r := <-l.results:
			results = append(results, r)
		default:
			more = false
		}
	}
	if l.phase == running {
		results = slices.DeleteFunc(results, l.waitsForApproval)
	}
	if len(results) == 0 {
		return
	}
	if l.spent() {
		l.endTimeout()
	}
	l.tick()
	batch := make([]*journal.Answer, len(results))
	for i, r := range results {
		batch[i] = l.record(r)
	}
	if l.phase != running || len(batch) == 1 && l.returns(batch[0]) {
		return // the answer is stored with the end
	}
	if l.save(ctx, batch); l.phase != running {
		return
	}
	for _, a := range batch {
		l.give(a)
		l.doSerial(ctx, a.N)
	}
}

// doSerial lets the gate answer the next serial call, if n is the number of the previous one.
func (l *loop) doSerial(ctx context.Context, n int) {
	queue := &l.calls.serial
	if len(*queue) == 0 || (*queue)[0].call.N != n {
		return
	}
	if *queue = (*queue)[1:]; len(*queue) > 0 && l.phase == running {
		l.do(ctx, (*queue)[0])
	}
}

// give delivers a recorded answer, now or when the replay has got that far.
func (l *loop) give(a *journal.Answer) {
	switch {
	case l.detachment.state != attached:
		l.reattach()
	case a.Delivery > 0 && l.cursor.Next() != nil:
		var call *journal.Call
		if c := l.calls.made(a.N); c != nil {
			call = c.call
		}
		l.fail(l.cursor.Add(call, a))
	default:
		l.deliver(a)
	}
}

// tick advances the time that the next answers get.
func (l *loop) tick() { l.latest = max(l.spec.Now().UnixMicro(), l.now, l.latest) }

// waitsForApproval reports whether the call of a result waits for an approval. If so, it changes the state of the call to asking.
func (l *loop) waitsForApproval(r result) bool {
	c := l.calls.all[r.n]
	if c.state != inFlight || c.asks == nil {
		return false
	}
	c.to(asking)
	return true
}

// record numbers an answer and appends it to the journal. An answer that comes after the end is stored together with the end,
// because a journal without an end must contain only answers that the guest got.
func (l *loop) record(r result) *journal.Answer {
	c := l.calls.all[r.n]
	c.to(answered)
	a := &journal.Answer{N: r.n, Now: l.latest, Value: r.value, Exact: c.told.Exact, Beside: c.told.Beside, Notes: c.told.Notes, Tokens: c.told.Tokens, Skill: c.told.Skill}
	if !c.kept.IsZero() {
		a.Kept = c.kept.UnixMicro()
	}
	if r.err != nil {
		a.Value = nil
		a.Error, _ = json.Marshal(r.err) // cannot fail: it holds strings and valid JSON
	}
	if l.passes(a) {
		a.Notes, a.Tokens = nil, nil // no guest gets them
	}
	l.effects.settle(r.n, r.err)
	l.unsaved.add(a)
	defer l.observe(Event{Answer: a})
	if l.phase != running {
		a.Delivery = journal.Undelivered
		l.late = append(l.late, a)
		return a
	}
	if !c.call.Sync {
		l.answers++
		a.Delivery = l.answers
	}
	l.journal.Append(journal.Record{Answer: a})
	return a
}

// deliver sends an answer to the guest.
func (l *loop) deliver(a *journal.Answer) {
	made := l.calls.made(a.N)
	if made == nil {
		return
	}
	c := made.call
	l.calls.remove(made)
	if !c.Sync {
		l.delivered++
	}
	if counted(frame.Kind(c.Kind), c.Sync) {
		l.busy--
	}
	failed, err := answerError(a)
	if err != nil {
		l.fail(err)
		return
	}
	if failed != nil {
		l.raised[raisedKind(failed)] = true
	}
	l.now = a.Now
	if c.Sync {
		l.timers.step()
	}
	if l.cross(len(a.Value) + len(a.Error) + len(a.Beside)); l.phase != running {
		return
	}
	value := a.Value
	if frame.Kind(c.Kind) == frame.InputOf && failed == nil {
		if value, err = l.spec.Input(value); err != nil {
			l.fail(err)
			return
		}
	}
	if c.Sync || l.guest.activity != blocked {
		l.compute()
	}
	l.send(&frame.Frame{
		T: frame.Answer, Run: l.spec.Start.Run, ID: a.N, Sync: c.Sync, Now: a.Now, Value: value, Error: failed, Exact: a.Exact, Beside: a.Beside, Notes: a.Notes,
		Tokens: a.Tokens, Methods: l.named(a.Tokens), Skill: a.Skill,
	})
}

// named returns the methods that the program's code names, or nil if the guest gets no tokens.
func (l *loop) named(tokens map[string]string) []string {
	if tokens == nil {
		return nil
	}
	return l.methods()
}

func (l *loop) log(ctx context.Context, line Log) {
	switch line.Level {
	case "log", "info", "warn", "error", "debug":
	default:
		line.Level = "log"
	}
	l.logBytes += len(line.Text) + 1
	if len(l.logs) >= l.spec.Limits.MaxLogLines {
		l.end(frame.KindOutputLimit, fmt.Sprintf("the program printed more than %d lines (sandbox.maxLogLines)", l.spec.Limits.MaxLogLines))
		return
	}
	if l.logBytes > l.spec.Limits.MaxOutput {
		l.end(frame.KindOutputLimit, fmt.Sprintf("the program printed more than %d bytes (sandbox.maxOutput)", l.spec.Limits.MaxOutput))
		return
	}
	if err := l.redactLog(ctx, &line); err != nil {
		l.unredacted(err)
		return
	}
	l.logs = append(l.logs, line)
	if len(l.logs) > len(l.cursor.Logs()) {
		l.journal.Append(journal.Record{Log: &line})
	}
	if len(l.logs) > len(l.cursor.Logs()) || !l.again {
		l.observe(Event{Log: &line})
	}
}
