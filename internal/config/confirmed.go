package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/policy"
)

// ApprovalHash returns a hash of all settings that decide which calls a person must approve. A person has to confirm every change of the hash,
// because it cannot be decided in general whether one policy is weaker than another.
func (c *Config) ApprovalHash() string {
	text, err := json.Marshal(struct {
		Preset     string
		Rules      []policy.Rule
		Servers    []serverTrust `json:",omitempty"`
		Quarantine string
		Confirm    string
		Expire     time.Duration
		Forms      bool
		Privacy    bool
		Types      []string
		Custom     map[string]string
	}{
		c.Policy.Preset, c.Policy.Rules, c.serverTrust(), c.QuarantineMode(), c.Approvals.Confirm, c.Approvals.ExpireAfter, c.MCP.Forms,
		c.PII.Enabled, c.PII.Types, c.PII.Custom,
	})
	if err != nil {
		panic("config: " + err.Error()) // json.Marshal does not fail for fields of these types
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// serverTrust holds those settings of one server on which rules with destinations depend.
type serverTrust struct {
	Name         string
	Untrusted    bool
	Tools        []string `json:",omitempty"`
	Destinations map[string][]string
}

// serverTrust returns the serverTrust of each server that has any of these settings, sorted by name.
func (c *Config) serverTrust() (all []serverTrust) {
	for _, s := range c.MCPServers {
		if s.Untrusted || s.UntrustedTools != nil || s.Destinations != nil {
			all = append(all, serverTrust{s.Name, s.Untrusted, s.UntrustedTools, s.Destinations})
		}
	}
	slices.SortFunc(all, func(a, b serverTrust) int { return strings.Compare(a.Name, b.Name) })
	return all
}
