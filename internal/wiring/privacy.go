package wiring

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"slices"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/store/redis"
	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/telemetry"
)

// redisVault connects to Redis.
func (h *Harness) redisVault() (pii.Vault, error) {
	r := h.cfg.Redis
	if err := r.Check(); err != nil {
		return nil, err
	}
	return redis.Open(redis.Options{
		URL: r.URL, Address: r.Address, Username: r.Username, Password: r.Password, TLS: r.TLS, CA: r.CA, DB: r.DB,
		TTL: max(r.TTL, h.cfg.Approvals.ExpireAfter+h.cfg.Sandbox.MaxWall), // tokens outlive a run that waits
	})
}

// Detector finds what the configuration says is personal data; nil where nothing is.
func Detector(c config.PII) (*detect.Detector, error) {
	if !c.Enabled {
		return nil, nil
	}
	return detect.New(detect.Options{Types: c.Types, Countries: c.Countries, Custom: c.Patterns()})
}

// maxFirst bounds the first number of a token in a vault in memory. It leaves room for as many.
const maxFirst = 1 << 30

// openPrivacy makes the filter of personal data. The key and the vault open at their first use.
func (h *Harness) openPrivacy() error {
	c := h.cfg.PII
	detector, err := Detector(c)
	if detector == nil || err != nil {
		return err
	}
	vault := func() (pii.Vault, error) {
		store, err := h.store()
		if err != nil {
			return nil, err
		}
		return store.Vault(), nil
	}
	switch c.Vault {
	case "memory":
		memory := pii.NewMemory(1 + rand.IntN(maxFirst))
		vault = func() (pii.Vault, error) { return memory, nil }
	case "redis":
		vault = opened(h, "pii.vault", "store, or correct the section redis", h.redisVault, func(v pii.Vault) error { return v.(io.Closer).Close() })
	}
	fields, err := c.Places()
	if err != nil {
		return err
	}
	h.privacy = pii.New(pii.Options{
		Detector: detector, Types: detector.Types(), Fields: fields, FailUnknown: c.UnknownTokens == "fail", Vault: vault, Now: h.out.Now,
		Keys:   h.keys,
		Limits: pii.Limits{Tokens: c.MaxTokens, UserTokens: int64(h.cfg.Quotas.Tokens), UserBytes: int64(h.cfg.Quotas.Vault)},
	})
	return nil
}

// restored audits that values were put in the place of tokens.
func (h *Harness) restored(ctx context.Context, tool string, tokens []pii.Token) {
	types := make([]string, len(tokens))
	for i, token := range tokens {
		types[i] = token.Type
	}
	slices.Sort(types)
	h.out.Audit.Audit(ctx, telemetry.Event{
		Type: telemetry.PIIAccess, Severity: telemetry.Low,
		Details: map[string]any{"tool": tool, "tokenCount": len(tokens), "tokenTypes": slices.Compact(types)},
	})
}

// ShownTask is a task as its owner sees it: with the values of the tokens in what was asked and answered. Console lines and errors
// keep the tokens.
func (h *Harness) ShownTask(ctx context.Context, t task.Task) (task.Task, error) {
	p := h.privacy.In(t.UserID, t.SessionID)
	var err error
	for _, text := range []*string{&t.Task, &t.Text} {
		if err == nil {
			*text, err = p.Restore(ctx, *text)
		}
	}
	for _, raw := range []*json.RawMessage{&t.Context, &t.Output} {
		if err == nil {
			*raw, _, err = p.RestoreJSON(ctx, *raw)
		}
	}
	return t, err
}

// ShownOutcome is the outcome of a run as its owner sees it. A run without a session has tokens of its own.
func (h *Harness) ShownOutcome(ctx context.Context, user, session string, out *run.Outcome) (*run.Outcome, error) {
	if out == nil {
		return nil, nil
	}
	shown := *out
	var err error
	shown.Output, _, err = h.privacy.In(cmp.Or(user, runs.DefaultUser), cmp.Or(session, out.RunID)).RestoreJSON(ctx, out.Output)
	return &shown, err
}
