// Package simulation decides recorded calls again, by another policy and by each preset. It also finds which rule decides a hypothetical call,
// between which tools values flowed, and in which fields of answers personal data was found.
// It makes no calls, and its results contain no values of arguments and answers.
//
// # How recorded calls are read
//
// A Source reads the newest runs within its Bounds, and their calls in the order in which they were recorded. It uses the present annotations and
// destinations of tools. Journals hold tokens without their origins. The origins of a token are therefore the tools in whose answers the token
// appeared earlier in its run, and the program if the token appeared in the program or in a file. If the token did not appear, its origin is unknown.
// Origins of other values are derived from the tasks and the recorded answers of the session (gate.Recall).
//
// # Bounds
//
// The list of runs has the number of calls of each run, so the calls are limited before a journal is read. A journal is in memory while its calls
// are decided; a journal larger than Bounds.Bytes is not read. Looked names everything that is left out.
package simulation
