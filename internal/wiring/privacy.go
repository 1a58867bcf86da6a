package wiring

import (
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/pii/seal"
)

// Detector finds what the configuration says is personal data; nil where nothing is.
func Detector(c config.PII) (*detect.Detector, error) {
	if !c.Enabled {
		return nil, nil
	}
	return detect.New(detect.Options{Types: c.Types, Custom: c.Patterns()})
}

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
	if c.Vault == "memory" {
		memory := pii.NewMemory()
		vault = func() (pii.Vault, error) { return memory, nil }
	}
	h.privacy = pii.New(pii.Options{
		Detector: detector, Types: detector.Types(), Vault: vault, Now: h.out.Now,
		Keys: kept(func() (*seal.Keys, error) {
			keys, err := seal.Open(seal.Options{Keys: c.Key, Name: "pii.key", File: c.KeyFile})
			if err != nil {
				return nil, &UnavailableError{err, "pii.keyFile", "a file in a directory that you may write to"}
			}
			return keys, nil
		}),
		Limits: pii.Limits{Tokens: c.MaxTokens, UserTokens: int64(h.cfg.Quotas.Tokens), UserBytes: int64(h.cfg.Quotas.Vault)},
	})
	return nil
}
