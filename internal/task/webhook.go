package task

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/netguard"
)

const (
	webhookTimeout = 10 * time.Second
	webhookTaken   = 15 * time.Second // time after which a webhook is tried again if the process that tried it died; longer than a try takes
	webhookAll     = 64               // maximum number of deliveries in flight
	webhookEach    = 4                // maximum for one user, so that slow receivers delay no other user
	webhookFirst   = 5 * time.Second  // pause after the first failure; doubles with each further failure
	webhookMost    = time.Hour
	webhookLook    = time.Minute // interval of looking for webhooks that other processes put into the outbox
)

// Webhooks configures how webhooks are delivered.
type Webhooks struct {
	Count func(outcome string) // counts tries by outcome, "delivered" or "failed"; may be nil
	// Secret signs: X-Harness-Signature is "sha256=" and the hexadecimal HMAC-SHA-256 of X-Harness-Timestamp, a dot and
	// the body. Without a secret nothing is signed.
	Secret       []byte
	AllowPrivate bool // allows loopback and private addresses too
	MaxAttempts  int
	// Reveal returns a task with the values of personal data. It is called for tasks whose callers may read them; if it is nil, all tasks keep the
	// tokens.
	Reveal  func(context.Context, Task) (Task, error)
	Version string // harness version, for User-Agent
}

// Check returns an error if a URL cannot be a callback. The IP addresses of its host are checked later, for each delivery.
func (w Webhooks) Check(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("it is not an http or https URL")
	case u.User != nil:
		return errors.New("it holds a user name or password")
	case len(address) > 2048:
		return errors.New("it has more than 2048 characters")
	case w.AllowPrivate:
		return nil
	}
	if netguard.Named(u.Hostname(), w.allowed) {
		return errPrivate
	}
	return nil
}

var errPrivate = fmt.Errorf("%w; server.webhooks.allowPrivate allows them", netguard.ErrPrivate)

// allowed reports whether a webhook may be delivered to an address.
func (w Webhooks) allowed(ip netip.Addr) bool { return w.AllowPrivate || netguard.Public(ip) }

// client returns an HTTP client that follows no redirect, uses no proxy, and connects only to addresses that are allowed.
func (w Webhooks) client() *http.Client {
	return &http.Client{
		Timeout:       webhookTimeout,
		Transport:     &http.Transport{DialContext: netguard.Dialer(webhookTimeout, w.allowed), TLSHandshakeTimeout: webhookTimeout, MaxIdleConns: 10, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// deliverWebhooks delivers the webhooks in the outbox until ctx ends.
func (s *Service) deliverWebhooks(ctx context.Context) {
	defer s.client.CloseIdleConnections()
	var sending sync.WaitGroup
	defer sending.Wait()
	var mu sync.Mutex
	inFlight := tally{} // deliveries in flight, by user
	count := func(user string, n int) {
		mu.Lock()
		defer mu.Unlock()
		inFlight.add(user, n)
	}
	last := "" // the user whose webhook was taken last
	for ctx.Err() == nil {
		now := s.opt.Now()
		mu.Lock()
		q := WebhookQuery{Now: now, Until: now.Add(webhookTaken), Limit: webhookAll - inFlight.sum(), Each: webhookEach, InFlight: maps.Clone(inFlight), After: last}
		mu.Unlock()
		wait := webhookLook
		hooks, next, err := s.opt.Store.TakeWebhooks(ctx, q)
		if err != nil && ctx.Err() == nil {
			s.opt.Logger.Error("deliver webhooks", "error", err)
			wait = webhookFirst
		}
		for _, w := range hooks {
			last = w.UserID
			count(w.UserID, 1)
			sending.Go(func() {
				s.deliver(ctx, w)
				count(w.UserID, -1)
				wake(s.outbox)
			})
		}
		if !next.IsZero() {
			wait = min(wait, next.Sub(now))
		}
		pause(ctx, wait, s.outbox)
	}
}

// deliver tries once to deliver a webhook. If the result cannot be stored, the webhook is tried again after webhookTaken.
func (s *Service) deliver(ctx context.Context, w Webhook) {
	body, err := s.webhookBody(ctx, w)
	if err == nil && body != nil {
		err = s.send(ctx, w, body)
	}
	var next time.Time
	outcome := "delivered"
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return // the next process that works the queue tries again
	default:
		outcome = "failed"
		s.opt.Logger.Warn("deliver a webhook", "task", w.TaskID, "approval", w.Approval, "event", w.ID, "attempt", w.Attempts+1, "error", err)
		if w.Attempts+1 < s.opt.Webhooks.MaxAttempts {
			next = s.opt.Now().Add(min(webhookFirst<<min(w.Attempts, 20), webhookMost))
		}
	}
	if s.opt.Webhooks.Count != nil && (body != nil || err != nil) {
		s.opt.Webhooks.Count(outcome)
	}
	err = s.opt.Store.SettleWebhook(context.WithoutCancel(ctx), w.ID, next)
	if err != nil && !errors.Is(err, ErrNotFound) { // ErrNotFound: the webhook was deleted meanwhile, such as with its session
		s.opt.Logger.Error("settle a webhook", "task", w.TaskID, "approval", w.Approval, "event", w.ID, "error", err)
	}
}

// webhookBody returns the body of a webhook. The body is nil if the webhook is about a request for an approval that no longer waits.
func (s *Service) webhookBody(ctx context.Context, w Webhook) ([]byte, error) {
	if w.Approval != "" {
		r, err := s.opt.Store.Approval(ctx, w.Approval)
		if errors.Is(err, approval.ErrNotFound) || err == nil && (r.Status != approval.Waiting || !r.Expires.After(s.opt.Now())) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(Notification{Type: EventApprovalRequested, Approval: &r, Decide: "/v1/approvals/" + r.ID})
	}
	t, err := s.opt.Store.Task(ctx, w.TaskID)
	if err == nil && t.Reveal && s.opt.Webhooks.Reveal != nil {
		t, err = s.opt.Webhooks.Reveal(ctx, t)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(Notification{Type: EventEnded, Task: &t})
}

func (s *Service) send(ctx context.Context, w Webhook, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	stamp := strconv.FormatInt(s.opt.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "mcp-code-exec-harness/"+s.opt.Webhooks.Version)
	req.Header.Set("X-Harness-Event-Id", w.ID)
	req.Header.Set("X-Harness-Timestamp", stamp)
	if len(s.opt.Webhooks.Secret) > 0 {
		req.Header.Set("X-Harness-Signature", "sha256="+s.opt.Webhooks.Sign(stamp, body))
	}
	resp, err := s.client.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // the error without its URL, which may hold a secret
		}
		if errors.Is(err, netguard.ErrPrivate) {
			err = errPrivate
		}
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // a connection can be reused once the body is read
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("it answered %s", resp.Status)
	}
	return nil
}

// Sign returns the hexadecimal signature of a body. stamp is the time of sending, as in X-Harness-Timestamp.
func (w Webhooks) Sign(stamp string, body []byte) string {
	mac := hmac.New(sha256.New, w.Secret)
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}
