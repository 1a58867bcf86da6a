// Package policy decides tool calls: rules and a call in, a verdict out. It has no state and asks nothing.
//
// A call is judged once as a whole, and once for each origin of each token in its arguments. In each judgement the first
// rule that matches decides; without one the answer is allow. The strictest judgement is the verdict on the call: deny,
// then ask, then allow. So another token, or another origin of a token, never makes a verdict milder.
//
// Which rules count in a judgement depends on their key tokens:
//
//   - A rule with tokens counts in judgements of tokens only.
//   - A rule without tokens counts in the judgement of the call. If it allows or denies, it counts in judgements of
//     tokens too: what it allows may take any token. If it asks, it does not: that a person sees the destructive calls
//     says nothing about where data may go, and must not keep a later rule from denying that.
//
// What is not known counts against the call. A token without origins, a caller without known roles, a program in an
// unknown tier and arguments that are not JSON match the rules that ask or deny, and none that allow and mention origins, roles, tiers or arguments. In the same way
// a rule that allows needs all values at a path of args to match, and at least one; for a rule that asks or denies one is
// enough.
//
// A rule with a limit bounds the calls that it decides as a whole. How many there were is not policy's to know: Verdict.Count says what
// a call counts for.
//
// Arguments hold tokens in place of personal data: conditions on args see the tokens.
//
// A condition with from is about where a value comes from. Call.Origin tells it, of each value at a path that such a condition names, and of no other.
// For a rule that allows, one of those who said the whole value has to be named; for others, parts and what is not known count too (condition.comes).
//
// # A pure function
//
// policy gets a call as the gate sees it (tool, annotations, user, roles, arguments, tokens with their origins) and returns a verdict; it
// has no state. config/policy.go reads the rules, its presets too, and reports mistakes where they are written. The gate restores values
// first, so that policy judges exactly the tokens whose values would be sent, and their origins. It asks once more if the server, once
// connected, claims other annotations than its recorded list did. A recorded answer, also a denial, consults no policy. Limits of rules are
// counted by the gate, in the store: a verdict says what its call counts for, and the count is taken in one transaction before the call is
// sent. The start record of a run, a task and a schedule keep who asked and with which roles; when a program of a task begins, or a run
// goes on, auth.Keys.Roles says which of them the caller still has. What is not known counts against the call. docs/POLICY.md has the rules
// for rules.
package policy
