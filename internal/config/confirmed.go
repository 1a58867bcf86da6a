package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"mcp-code-exec-harness/internal/policy"
)

// ApprovalHash identifies everything in a configuration that says which calls a person is asked about. Any change of it has to be confirmed: whether
// one policy is weaker than another cannot be told in general.
func (c *Config) ApprovalHash() string {
	text, err := json.Marshal(struct {
		Preset     string
		Rules      []policy.Rule
		Quarantine string
		Confirm    string
		Expire     time.Duration
		Forms      bool
		Privacy    bool
		Types      []string
		Custom     map[string]string
	}{
		c.Policy.Preset, c.Policy.Rules, c.QuarantineMode(), c.Approvals.Confirm, c.Approvals.ExpireAfter, c.MCP.Forms,
		c.PII.Enabled, c.PII.Types, c.PII.Custom,
	})
	if err != nil {
		panic("config: " + err.Error()) // texts, numbers and truths
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
