// Package policy decides about tool calls: a Policy takes a call and returns a verdict. A Policy has no state and asks no one.
//
// A call is judged once as a whole, and once for each origin of each token in its arguments. In each judgement the first rule that matches decides;
// if no rule matches, the judgement is allow. The strictest judgement is the verdict on the call: deny, then ask, then allow. Therefore an additional
// token, or an additional origin of a token, never makes a verdict milder.
//
// Whether a rule counts in a judgement depends on its field Tokens:
//
//   - A rule with tokens counts in judgements of tokens only.
//   - A rule without tokens counts in the judgement of the call. If it allows or denies, it counts in judgements of tokens too: a call that
//     it allows may contain any token. If it asks, it does not count in judgements of tokens: a rule that asks about destructive calls does not
//     decide where data may go, and a later rule must still be able to deny the call because of a token.
//
// Unknown facts count against the call. A token without origins, a caller without known roles, a program in an
// unknown tier and arguments that are not JSON match the rules that ask or deny, but no rule that allows and mentions origins, roles, tiers or
// arguments. In the same way a rule that allows needs all values at a path of args to match, and at least one value. For a rule that asks or denies,
// one matching value is enough.
//
// A limit bounds the number of calls that its rule decides. The caller of this package counts them: Verdict.Count returns the counter
// of a call.
//
// Arguments contain tokens in place of personal data, so conditions on args see the tokens.
//
// A condition with from is about the origin of a value. Call.Origin returns the origin. Policy calls Call.Origin for values at paths of such
// conditions and at destinations, and for tokens if a rule has tokens.as. A rule that allows must name one source of the whole value. A rule
// that asks or denies matches sources of parts and unknown origins too (condition.comes).
//
// # A pure function
//
// policy gets a call as the gate sees it (tool, annotations, user, roles, arguments, tokens with their origins) and returns a verdict. It has no
// state. config/policy.go reads the rules and the presets, and reports mistakes with their positions. The gate restores values first, so that policy
// judges exactly the tokens whose values would be sent, and their origins. The gate asks again if the server, once connected, reports other
// annotations than its recorded list. A recorded answer, also a denial, is replayed without policy. The gate counts calls for limits in the store: a
// verdict names the counter, and the count is incremented in one transaction before the call is sent. The caller and their roles are stored in the
// start record of a run, in a task and in a schedule. When a program of a task begins, or a run is continued, auth.Keys.Roles returns those roles
// that the caller still has. docs/POLICY.md describes how to write rules.
package policy
