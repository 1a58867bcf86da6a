package approval

import (
	"context"
	"sync"
)

// Decided is what was decided about the calls of one run. It is safe for concurrent use; a nil one has nothing.
type Decided struct {
	// Load returns the requests of the run, and those of its task that are to be remembered, oldest first.
	Load func(ctx context.Context) ([]Request, error)

	mu       sync.Mutex
	loaded   bool
	calls    map[int]Verdict  // of this run, the last request about each call
	remember map[string]grant // by tool
}

// Verdict is what was decided about one call.
type Verdict struct {
	Request Request
	Call    Call
}

// grant is a remembered approval of a tool.
type grant struct{ request, definition string }

// Of returns the last decision about a call of the run; ok is false if there is none.
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

// Remembered returns the request by which all calls of a tool with this definition are approved, "" if there is none.
func (d *Decided) Remembered(ctx context.Context, run, tool, definition string) (request string, err error) {
	if d == nil {
		return "", nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.load(ctx, run); err != nil {
		return "", err
	}
	if g := d.remember[tool]; g.definition == definition {
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
	d.loaded, d.calls, d.remember = true, map[int]Verdict{}, map[string]grant{}
	for _, r := range all {
		for _, c := range r.Calls {
			if r.Run == run && r.Status != Waiting {
				d.calls[c.N] = Verdict{r, c}
			}
			if r.Status == Approved && r.Remember {
				d.remember[c.Tool] = grant{r.ID, c.Binding.Definition}
			}
		}
	}
	return nil
}
