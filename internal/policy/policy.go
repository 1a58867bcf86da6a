// Package policy decides tool calls: rules and a call in, a verdict out. It has no state and asks nothing.
package policy

import (
	"encoding/json"

	"mcp-code-exec-harness/internal/auth"
)

// Action is what happens to a call.
type Action string

// The actions, the least strict first.
const (
	Allow Action = "allow"
	Ask   Action = "ask" // a person decides
	Deny  Action = "deny"
)

// Call is a tool call as policy sees it.
type Call struct {
	Server, Tool string // Tool is the full name, such as crm__search
	ReadOnly     bool   // annotations, as the server or the configuration claims them
	Destructive  bool
	Idempotent   bool
	OpenWorld    bool
	User         string
	Roles        []auth.Role
	Args         json.RawMessage // with tokens in place of values
	Tokens       []Token         // in Args, each once
}

// Token is a token in the arguments of a call.
type Token struct {
	Text    string   // [EMAIL_1]
	Type    string   // EMAIL
	Origins []string // where values came from: full names of tools, "task", "file", "program"
}

// Verdict is the decision on a call.
type Verdict struct {
	Action Action
	Rule   int    // its number in the policy, from 1; 0 where no rule matched
	Reason string // for people and programs: names the rule, and the token it is about; never a value
	Token  string // that decided; empty where the call itself did
}
