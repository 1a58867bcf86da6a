package auth

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

// limitedUsers is how many users a Limiter remembers; the one that asked longest ago is forgotten first.
const limitedUsers = 1 << 16

// Limiter bounds how often each user may ask. It is safe for concurrent use.
type Limiter struct {
	mu   sync.Mutex // the algorithm gives up where many change the count of one user at the same time
	gcra *throttled.GCRARateLimiterCtx
}

// NewLimiter allows each user max requests in a window, by the generic cell rate algorithm: max at once, and then one
// each time window/max has passed. 100 in 15 minutes are 100 at once, the next one 9 s later.
func NewLimiter(max int, window time.Duration) (*Limiter, error) {
	if max < 1 || window/time.Duration(max) < 1 {
		return nil, errors.New("a rate limit needs at least one request and a window that is longer than that many nanoseconds")
	}
	store, err := memstore.NewCtx(limitedUsers)
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

// Allow counts a request. remaining is how many more are allowed at once. after is how long to wait: for all of them if
// ok, else for the next one, as Retry-After says it.
func (l *Limiter) Allow(user string) (ok bool, remaining int, after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limited, result, err := l.gcra.RateLimitCtx(context.Background(), user, 1)
	if err != nil || limited {
		return false, result.Remaining, max(result.RetryAfter, time.Nanosecond)
	}
	return true, result.Remaining, result.ResetAfter
}
