package policy_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/policy"
)

// allowing allows every call.
type allowing struct{}

func (allowing) Decide(policy.Call) policy.Verdict { return policy.Verdict{Action: policy.Allow} }

// records are those of a store without any.
type records struct{ approval.Records }

func (records) Confirmation(context.Context, string) ([]byte, error) { return nil, nil }

// While the store is away, calls are decided as before: a call does not ask a person only because the connection to the store broke.
func TestConfirmationWithoutStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		presence := &approval.Presence{Dir: t.TempDir(), Now: time.Now, Records: func() (approval.Records, error) {
			if away.Load() {
				return nil, errors.New("the store is away")
			}
			return records{}, nil
		}}
		decider := func() policy.Decider {
			return policy.AskUntilConfirmed(allowing{}, policy.Confirmation{Presence: presence, File: "f", Hash: "h"}, slog.New(slog.DiscardHandler))
		}
		p := decider()
		want := func(when string, action policy.Action) {
			t.Helper()
			time.Sleep(time.Minute) // until the store is asked again
			if v := p.Decide(policy.Call{}); v.Action != action {
				t.Errorf("%s: %s, want %s", when, v.Action, action)
			}
		}
		away.Store(true)
		want("before the first answer", policy.Ask)
		p = decider()
		time.AfterFunc(time.Minute+5*time.Second, func() { away.Store(false) })
		want("the store is away for a short time", policy.Allow)
		away.Store(true)
		want("after an answer", policy.Allow)
		away.Store(false)
		presence.Wanted = true
		want("there is no confirmation", policy.Ask)
	})
}
