package versions

import (
	"slices"
	"time"
)

// Bounds of what users share. A store enforces them.
const (
	MaxShares        = 500     // maximum number of shares of an owner
	MaxListed        = 1000    // maximum number of skills that are listed of those shared with everyone, of those with a team, and of those with a user, unless accepted
	MaxAccepted      = 500     // maximum number of contents of others that a user has accepted
	MaxProposals     = 5       // maximum number of proposals of a skill that wait for a review
	MaxProposalBytes = 1 << 20 // maximum size in bytes of the archive of a proposal
)

// Role says what others may do with a shared skill. Each role includes those before it.
type Role string

// The roles.
const (
	Read    Role = "read"    // people see it
	Use     Role = "use"     // programs use it
	Write   Role = "write"   // propose versions
	Approve Role = "approve" // approve proposals
)

// Roles are the roles, the least first.
var Roles = []Role{Read, Use, Write, Approve}

// Includes reports whether a role includes another one. An empty or unknown role includes none.
func (r Role) Includes(other Role) bool {
	is := slices.Index(Roles, r)
	return is >= 0 && is >= slices.Index(Roles, other)
}

// Everyone is the grantee of a skill that all users of the store see. The other grantees are "user:" and the id of a user, and "team:" and the name of a team.
const (
	Everyone   = "everyone"
	UserPrefix = "user:"
	TeamPrefix = "team:"
)

// Share lets others see a skill of its owner.
type Share struct {
	Name    string    `json:"name"` // path of the skill inside the owner's /skills
	With    string    `json:"with" example:"team:sales" doc:"everyone, user:ID or team:NAME."`
	Role    Role      `json:"role" enum:"read,use,write,approve"`
	Created time.Time `json:"created"`
	Version int       `json:"version"` // number of the version that others see, of all shares of the skill
}

// Shared is a skill of another user.
type Shared struct {
	Owner    string `json:"owner"`
	Name     string `json:"name"` // path inside the owner's /skills
	Role     Role   `json:"role" enum:"read,use,write,approve"`
	Version  int    `json:"version"`            // number of the version that others see
	Digest   string `json:"digest"`             // digest of that version
	Accepted int    `json:"accepted,omitempty"` // number of the version that the user has accepted; 0 for none
	// AcceptedDigest is the digest of the accepted version; empty for none.
	AcceptedDigest string `json:"acceptedDigest,omitempty"`
}
