package approval

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Decided holds the decisions about the calls of one run. It is safe for concurrent use; a nil Decided is empty.
type Decided struct {
	// Load returns the requests of the run, and those requests of the run's task whose approval is remembered, oldest first.
	Load func(ctx context.Context) ([]Request, error)
	// Check returns an error that wraps ErrUnconfirmed for an approval that lacks a required signature. An approval with this error counts as not
	// decided. If Check is nil, no signature is required.
	Check func(ctx context.Context, r Request) error
	Now   func() time.Time // current time, for the end of remembered approvals

	mu       sync.Mutex
	loaded   bool
	calls    map[int]Verdict  // last verdict on each call of this run
	remember map[string]grant // approvals for later calls, by tool
}

// Verdict is the decision about one call.
type Verdict struct {
	Request Request
	Call    Call
	Shown   string // hash of what a person saw of the call before signing, see Shown; "" if the approval has no signature
}

// grant is a remembered approval of a tool.
type grant struct {
	request, definition string
	until               time.Time // end of the approval; zero means no end
}

// Of returns the last decision about a call of the run; ok is false if there is no decision.
func (d *Decided) Of(ctx context.Context, run string, n int) (v Verdict, ok bool, err error) {
	if d == nil {
		return v, false, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.load(ctx, run); err != nil {
		return v, false, err
	}
	v, ok = d.calls[n]
	return v, ok, nil
}

// Remembered returns the ID of the request whose approval covers all calls of a tool with this definition, or "" if there is none.
func (d *Decided) Remembered(ctx context.Context, run, tool, definition string) (request string, err error) {
	if d == nil {
		return "", nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.load(ctx, run); err != nil {
		return "", err
	}
	if g := d.remember[tool]; g.definition == definition && (g.until.IsZero() || d.Now().Before(g.until)) {
		return g.request, nil
	}
	return "", nil
}

func (d *Decided) load(ctx context.Context, run string) error {
	if d.loaded {
		return nil
	}
	all, err := d.Load(ctx)
	if err != nil {
		return err
	}
	calls, remember := map[int]Verdict{}, map[string]grant{}
	for _, r := range all {
		if r.Status == Approved && d.Check != nil {
			if err := d.Check(ctx, r); errors.Is(err, ErrUnconfirmed) {
				continue
			} else if err != nil {
				return err
			}
		}
		for i, c := range r.Calls {
			v, until := Verdict{Request: r, Call: c}, time.Time{}
			if r.Signature != nil && i < len(r.Signature.Shown) {
				v.Shown, until = r.Signature.Shown[i], r.Expires
			}
			if r.Run == run && r.Status != Waiting {
				calls[c.N] = v
			}
			if r.Status == Approved && r.Remember {
				remember[c.Tool] = grant{r.ID, c.Binding.Definition, until}
			}
		}
	}
	d.loaded, d.calls, d.remember = true, calls, remember
	return nil
}
