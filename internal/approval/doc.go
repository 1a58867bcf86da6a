// Package approval holds what people are asked about tool calls, and what they decided. A run that waits for an approval
// has given up its runner: what it needs to go on is in its journal and in its request.
//
// # Reviews of definitions
//
// mcpclient gives each list of tools to a review before any of it is offered, also one from the disk, and leaves out what the review holds
// (quarantine). The rule is a pure function (approval.Review) of what is kept of the server and what it lists; the store applies it in one
// transaction and keeps the approved and the last definition of each tool. The catalog knows the names of held tools only, for errors. The
// hash of a definition is the same function that binds approvals of calls. A process that holds something looks every two seconds whether a
// person has approved something since.
package approval
