package auth

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

// limitedCallers is the number of callers that a Limiter remembers. It forgets the caller whose last request is the oldest.
const limitedCallers = 1 << 16

const (
	// ratesWait is the maximum time that a request waits for the counts of all processes.
	ratesWait = time.Second
	// ratesAgain is the time after an error for which the counts of all processes are not used.
	ratesAgain = time.Second
)

// Rates counts the requests of callers for all processes that share a store. Its methods are safe for concurrent use.
type Rates interface {
	// Take counts n requests of a caller against the limit with this name, all of them or none (GCRA). Each request puts the caller ahead by the time every.
	// ok is false if the caller would be ahead by more than all. The result ahead is the time by which the caller is ahead now; it is 0 if that is unknown.
	// every and all are whole microseconds.
	Take(ctx context.Context, caller, limit string, n int, every, all time.Duration) (ok bool, ahead time.Duration, err error)
}

// Limiter limits how often each caller may send requests. It is safe for concurrent use.
type Limiter struct {
	max        int
	every, all time.Duration

	mu   sync.Mutex // needed because the algorithm fails when many goroutines change the count of one caller
	gcra *throttled.GCRARateLimiterCtx

	rates  Rates // counts of all processes; nil if the limit holds for this process only
	name   string
	logger *slog.Logger

	asking sync.Mutex // guards the fields below
	asked  map[string]*asked
	away   time.Time // time until which rates is not used
}

// asked holds the requests of a caller that wait for an answer of Rates. At most one call of Take is in progress for each caller.
type asked struct {
	waiting []chan allowed
	busy    bool      // a goroutine is answering the requests in waiting
	refused time.Time // time until which no request is allowed
}

// allowed is the answer to a request.
type allowed struct {
	ok    bool
	ahead time.Duration // time by which the caller is ahead; see Rates
	err   error
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
	every := (window/time.Duration(max) + time.Microsecond - 1).Truncate(time.Microsecond) // rounded up, so that no more than max requests are allowed
	return &Limiter{max: max, every: every, all: every * time.Duration(max), gcra: gcra, asked: map[string]*asked{}}, nil
}

// Share makes the limit hold for all processes that share rates and give the limit this name. While rates fails, which is logged, the limit holds for each
// process by itself. Share must be called before Allow.
func (l *Limiter) Share(rates Rates, name string, logger *slog.Logger) {
	l.rates, l.name, l.logger = rates, name, logger
}

// Allow counts a request of a caller. limit is the number of requests allowed at once, and remaining is how many of them are left. If ok is false, after is
// the time until the next request is allowed. If ok is true, after is the time until remaining equals limit again. If the limit is shared, Allow waits for
// the answer of Rates, for about a second at most.
func (l *Limiter) Allow(caller string) (ok bool, limit, remaining int, after time.Duration) {
	if l.rates == nil {
		return l.allow(caller)
	}
	a := l.ask(caller)
	switch {
	case a.err != nil:
		return l.allow(caller)
	case a.ok:
		l.allow(caller) // also counted in this process, for the time when the store does not answer
		return true, l.max, l.free(a.ahead), a.ahead
	}
	return false, l.max, 0, max(a.ahead+l.every-l.all, time.Nanosecond)
}

// allow does the same as Allow with the counts of this process only.
func (l *Limiter) allow(caller string) (ok bool, limit, remaining int, after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limited, result, err := l.gcra.RateLimitCtx(context.Background(), caller, 1)
	if err != nil || limited {
		return false, result.Limit, result.Remaining, max(result.RetryAfter, time.Nanosecond)
	}
	return true, result.Limit, result.Remaining, result.ResetAfter
}

// free returns how many requests a caller who is ahead by this time may send at once.
func (l *Limiter) free(ahead time.Duration) int { return int((l.all - max(ahead, 0)) / l.every) }

var errAway = errors.New("the counts of requests did not answer a moment ago")

// ask counts a request in the counts of all processes. If a call of Take is in progress for the caller, the next call of Take counts the request.
func (l *Limiter) ask(caller string) allowed {
	l.asking.Lock()
	now := time.Now()
	if now.Before(l.away) {
		l.asking.Unlock()
		return allowed{err: errAway}
	}
	of := l.asked[caller]
	if of == nil {
		if len(l.asked) >= limitedCallers {
			l.forget(now)
		}
		of = &asked{}
		l.asked[caller] = of
	}
	if wait := of.refused.Sub(now); wait > 0 {
		l.asking.Unlock()
		return allowed{ahead: wait + l.all - l.every}
	}
	answer := make(chan allowed, 1)
	of.waiting = append(of.waiting, answer)
	if !of.busy {
		of.busy = true
		go l.answer(caller, of)
	}
	l.asking.Unlock()
	return <-answer
}

// forget removes the callers that have no waiting requests and whose time of refusal is over. Its caller must hold the lock asking.
func (l *Limiter) forget(now time.Time) {
	for caller, of := range l.asked {
		if !of.busy && !now.Before(of.refused) {
			delete(l.asked, caller)
		}
	}
}

// answer answers the waiting requests of a caller until none waits.
func (l *Limiter) answer(caller string, of *asked) {
	for {
		l.asking.Lock()
		n := min(len(of.waiting), l.max)
		if n == 0 {
			of.busy = false
			if !time.Now().Before(of.refused) {
				delete(l.asked, caller)
			}
			l.asking.Unlock()
			return
		}
		l.asking.Unlock()
		n, a := l.take(caller, n)
		l.asking.Lock()
		switch {
		case a.err != nil:
			l.away, n = time.Now().Add(ratesAgain), len(of.waiting)
		case !a.ok:
			of.refused, n = time.Now().Add(a.ahead+l.every-l.all), len(of.waiting)
		}
		answered := of.waiting[:n]
		of.waiting = of.waiting[n:]
		l.asking.Unlock()
		if a.err != nil {
			l.logger.Warn("requests of all processes are not counted: each process applies the limit by itself", "limit", l.name, "error", a.err)
		}
		for _, to := range answered {
			to <- a
		}
	}
}

// take counts n requests, or as many of them as are allowed. It returns how many it has counted.
func (l *Limiter) take(caller string, n int) (int, allowed) {
	ctx, cancel := context.WithTimeout(context.Background(), ratesWait)
	defer cancel()
	for {
		ok, ahead, err := l.rates.Take(ctx, caller, l.name, n, l.every, l.all)
		if ok || err != nil {
			return n, allowed{ok, ahead, err}
		}
		free := min(l.free(ahead), n-1) // free decreases with each round, so the loop ends
		if free < 1 {
			return 0, allowed{ahead: max(ahead, l.all-l.every)}
		}
		n = free
	}
}
