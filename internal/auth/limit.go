package auth

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

// limitedCallers is the number of callers that a Limiter remembers, the most recent ones.
const limitedCallers = 1 << 16

// Limiter limits how often each caller may send requests. It is safe for concurrent use.
type Limiter struct {
	mu   sync.Mutex // needed because the algorithm fails when many goroutines change the count of one caller
	gcra *throttled.GCRARateLimiterCtx
}

// NewLimiter allows each caller max requests in a window, by the generic cell rate algorithm: max at once, and then one
// each time that window/max has passed. With 100 in 15 minutes, 100 are allowed at once, and the next one 9 s later.
func NewLimiter(max int, window time.Duration) (*Limiter, error) {
	if max < 1 || window/time.Duration(max) < 1 {
		return nil, errors.New("a rate limit needs at least one request and a window that is longer than that many nanoseconds")
	}
	store, err := memstore.NewCtx(limitedCallers)
	if err != nil {
		return nil, err
	}
	gcra, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(max, window),
		MaxBurst: max - 1,
	})
	if err != nil {
		return nil, err
	}
	return &Limiter{gcra: gcra}, nil
}

// Allow counts a request of a caller. limit is the number of requests allowed at once, and remaining is how many of them are left. If ok is
// false, after is the time until the next request is allowed. If ok is true, after is the time until remaining equals limit again.
func (l *Limiter) Allow(caller string) (ok bool, limit, remaining int, after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limited, result, err := l.gcra.RateLimitCtx(context.Background(), caller, 1)
	if err != nil || limited {
		return false, result.Limit, result.Remaining, max(result.RetryAfter, time.Nanosecond)
	}
	return true, result.Limit, result.Remaining, result.ResetAfter
}
