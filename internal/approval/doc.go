// Package approval defines what people are asked about tool calls and what they decide. A run that waits for an approval has given up its
// runner. What it needs to continue is in its journal and in its request.
//
// # Reviews of definitions
//
// Package mcpclient passes each list of tools, including cached ones, to a review before it offers any of them, and omits tools that the
// review holds (quarantine). The rule is a pure function (approval.Review) of the server's stored pins and its listing. The store applies
// it in one transaction and keeps the approved and the latest definition of each tool. The catalog knows only the names of held tools, for
// errors. The same hash function identifies definitions here and in approvals of calls. A process that holds a definition checks every two
// seconds whether a person has approved one.
package approval
