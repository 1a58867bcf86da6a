package policy

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/approval"
)

// Unconfirmed is the reason of a verdict that asks only because no person has confirmed the policy.
const Unconfirmed = "no person has confirmed the policy as it is now, so every call asks"

// lookForConfirmation is the interval at which a process checks whether its policy was confirmed.
const lookForConfirmation = 2 * time.Second

const (
	storeWait  = 15 * time.Second       // time for which the first decision waits for a store that is away
	storeAgain = 250 * time.Millisecond // pause before the store is asked again
)

// Confirmation identifies the policy that a person confirms, by its configuration file and the hash of its settings.
type Confirmation struct {
	Presence *approval.Presence
	File     string
	// Hash identifies all settings that determine which calls a person is asked about.
	Hash string
}

func (c Confirmation) subject() string { return "policy " + c.File }

// Confirm records that a person has confirmed the policy in effect.
func (c Confirmation) Confirm(ctx context.Context, sign approval.Sign) error {
	return c.Presence.Confirm(ctx, sign, c.subject(), c.Hash)
}

// Confirmed reports whether a person has confirmed the policy in effect, or need not confirm it.
func (c Confirmation) Confirmed(ctx context.Context) (bool, error) {
	return c.Presence.Confirmed(ctx, c.subject(), c.Hash)
}

// Decider decides about calls. *Policy implements it. It is safe for concurrent use.
type Decider interface{ Decide(c Call) Verdict }

// AskUntilConfirmed returns a policy that asks a person about every call that p allows, until the policy is confirmed.
func AskUntilConfirmed(p Decider, confirmation Confirmation, logger *slog.Logger) Decider {
	return &unconfirmed{Decider: p, confirmation: confirmation, logger: logger}
}

type unconfirmed struct {
	Decider
	confirmation Confirmation
	logger       *slog.Logger

	mu        sync.Mutex
	looked    time.Time
	confirmed bool
	told      bool
}

// Keeps reports whether rules keep answers.
func (p *unconfirmed) Keeps() bool {
	inner, ok := p.Decider.(interface{ Keeps() bool })
	return ok && inner.Keeps()
}

// Decide implements Decider.
func (p *unconfirmed) Decide(c Call) Verdict {
	v := p.Decider.Decide(c)
	if v.Action == Allow && !p.isConfirmed() {
		v.Action, v.Reason = Ask, Unconfirmed
	}
	return v
}

func (p *unconfirmed) isConfirmed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.looked.IsZero() || now.Sub(p.looked) >= lookForConfirmation {
		confirmed, err := p.confirmation.Confirmed(context.Background())
		for p.looked.IsZero() && err != nil && time.Since(now) < storeWait { // A person would have to decide even after the store is back.
			time.Sleep(storeAgain)
			confirmed, err = p.confirmation.Confirmed(context.Background())
		}
		if p.looked = time.Now(); err == nil { // The last answer stays in force while the store is away, where no call can be made anyway.
			p.confirmed = confirmed
		}
		if !p.confirmed && !p.told {
			p.told = true
			p.logger.Warn("every call asks a person, because the policy has changed since one confirmed it; harness doctor says what to do",
				"file", p.confirmation.File, "error", err)
		}
	}
	return p.confirmed
}
