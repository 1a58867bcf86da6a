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

// ApprovalHash identifies everything in a configuration that says which calls a person is asked about. Any change of it has to be confirmed: whether
// one policy is weaker than another cannot be told in general.
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
		panic("config: " + err.Error()) // texts, numbers and truths
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// serverTrust is what the configuration says of a server that rules with destinations use.
type serverTrust struct {
	Name         string
	Untrusted    bool
	Tools        []string `json:",omitempty"`
	Destinations map[string][]string
}

// serverTrust is what the configuration says of servers, by name; servers of which it says nothing are left out.
func (c *Config) serverTrust() (all []serverTrust) {
	for _, s := range c.MCPServers {
		if s.Untrusted || s.UntrustedTools != nil || s.Destinations != nil {
			all = append(all, serverTrust{s.Name, s.Untrusted, s.UntrustedTools, s.Destinations})
		}
	}
	slices.SortFunc(all, func(a, b serverTrust) int { return strings.Compare(a.Name, b.Name) })
	return all
}
