package cli

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// watchEvery is the interval at which the files of a program are checked. Polling also works on network file systems, and with editors that replace
// files.
const watchEvery = 200 * time.Millisecond

// errChanged is the cause that ends a run because its program has changed.
var errChanged = errors.New("the program has changed")

// watch executes the program, and executes it again after each change, until ctx ends.
func (c *execCmd) watch(ctx context.Context, a *app) error {
	h, err := a.open(ctx)
	if err != nil {
		return err
	}
	for {
		if err := c.watchOnce(ctx, a, h); err != nil {
			return err
		}
		a.stdout.clear()
	}
}

// watchOnce executes the program, and waits until one of the program's files has changed. It returns an error only if ctx ends.
func (c *execCmd) watchOnce(ctx context.Context, a *app, h harness) error {
	local := c.local(a)
	defer local.close()
	local.look(a.path(c.File))
	if c.Input != "" {
		local.look(a.path(c.Input))
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, 1)
	go func() { ended <- c.execute(running, a, h, local) }()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			ended = nil
			if ctx.Err() == nil && context.Cause(running) == nil {
				a.report(ctx, err)
				fmt.Fprintf(a.Stderr, "harness: waiting for a change of %s; Ctrl-C ends it\n", c.File)
			}
		case <-ctx.Done():
			if ended != nil {
				<-ended
			}
			return context.Cause(ctx)
		case <-tick.C:
			if !local.changed() {
				continue
			}
			stop(errChanged)
			if ended != nil {
				<-ended
			}
			return nil
		}
	}
}
