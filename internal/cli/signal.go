package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// WithSignals returns a context that SIGINT or SIGTERM ends, with the Signal as its cause. A second signal ends the
// process at once: children see their input end, or the kernel tells them.
func WithSignals() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if ctx.Err() != nil {
					os.Exit(exitCode(ctx, nil))
				}
				cancel(Signal{s})
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}
