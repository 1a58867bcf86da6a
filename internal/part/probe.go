package part

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// ProbeTime is the maximum duration of Probe.Check.
const ProbeTime = 2 * time.Second

// Probe checks whether a part that a server depends on works.
type Probe struct {
	Name   string
	Effect string // consequence of a failed check, for readers who may not see the error
	check  func(context.Context) error
	slot   chan struct{} // holds a value while check runs, so that check is not called again while it hangs
}

// NewProbe returns a probe.
func NewProbe(name, effect string, check func(context.Context) error) Probe {
	return Probe{name, effect, check, make(chan struct{}, 1)}
}

// Check returns nil if the part works. It returns within ProbeTime, even if the check itself hangs.
func (p Probe) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, ProbeTime, fmt.Errorf("%s has not answered within %s", p.Name, ProbeTime))
	defer cancel()
	select {
	case p.slot <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-p.slot }()
		done <- p.check(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// CheckAll checks all parts at the same time, and returns their errors in the same order.
func CheckAll(ctx context.Context, probes []Probe) []error {
	errs := make([]error, len(probes))
	var wg sync.WaitGroup
	for i, p := range probes {
		wg.Go(func() { errs[i] = p.Check(ctx) })
	}
	wg.Wait()
	return errs
}
