// Package approval defines the requests in which people are asked to approve tool calls, and the decisions of these people. A run that waits
// for an approval has given up its runner. The state that the run needs to continue is in the journal of the run and in the request.
//
// # Reviews of definitions
//
// Package mcpclient passes each list of tools, including cached ones, to a review before it offers any of them, and omits tools that the review
// puts into quarantine (held tools). The review is a pure function (approval.Review) of the server's stored pins and the list. The store applies
// the function in one transaction and keeps the approved and the latest definition of each tool. The catalog knows only the names of held tools,
// which it needs for errors. The same hash function identifies definitions here and in approvals of calls. A process with held tools checks every
// two seconds whether a person has approved a definition.
package approval
