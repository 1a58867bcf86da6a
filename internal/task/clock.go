package task

import (
	"context"
	"time"
)

// wake puts a token into a channel with room for one, unless the channel is full.
func wake(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// pause waits until a signal comes, the given time has passed or ctx ends.
func pause(ctx context.Context, wait time.Duration, signal <-chan struct{}) {
	select {
	case <-time.After(wait):
	case <-signal:
	case <-ctx.Done():
	}
}

// every calls f at once and then after every interval until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		f()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// tally counts things by user or task. A count of 0 takes no memory.
type tally map[string]int

func (t tally) add(key string, n int) int {
	t[key] += n
	if t[key] == 0 {
		delete(t, key)
		return 0
	}
	return t[key]
}

func (t tally) sum() (all int) {
	for _, n := range t {
		all += n
	}
	return all
}
