package wiring

import (
	"io"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/store/redis"
)

// redisVault returns a vault that connects to Redis.
func (h *Harness) redisVault() (pii.Vault, error) {
	r := h.cfg.Redis
	if err := r.Check(); err != nil {
		return nil, err
	}
	return redis.Open(redis.Options{
		URL: r.URL, Address: r.Address, Username: r.Username, Password: r.Password, TLS: r.TLS, CA: r.CA, DB: r.DB,
		TTL: max(r.TTL, h.cfg.Approvals.ExpireAfter+h.cfg.Sandbox.MaxWall), // tokens outlive a waiting run
	})
}

// openPrivacy makes the filter of personal data. The key and the vault are opened at their first use.
func (h *Harness) openPrivacy() error {
	c := h.cfg.PII
	detector, err := c.Detector()
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
		memory := pii.NewMemoryApart()
		vault = func() (pii.Vault, error) { return memory, nil }
	case "redis":
		vault = opened(h, "pii.vault", "store, or correct the section redis", h.redisVault, func(v pii.Vault) error { return v.(io.Closer).Close() })
	}
	fields, err := c.Places()
	if err != nil {
		return err
	}
	h.privacy = pii.New(pii.Options{
		Detector: detector, Types: detector.Types(), Fields: fields, Natural: c.Tokens == "natural", FailUnknown: c.UnknownTokens == "fail", InCode: pii.InCode(c.InCode), Vault: vault, Now: h.out.Now,
		Keys:   h.keys,
		Limits: pii.Limits{Tokens: c.MaxTokens, UserTokens: int64(h.cfg.Quotas.Tokens), UserBytes: int64(h.cfg.Quotas.Vault)},
	})
	return nil
}
