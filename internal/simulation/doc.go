// Package simulation decides recorded calls again: by another policy, and by each preset. It also says which rule decides a call that was not made,
// between which tools values went, and in which fields of answers personal data was found.
// It makes no call, and its answers have no values of arguments and answers.
//
// # How recorded calls are read
//
// A Source reads the newest runs within its Bounds, and their calls in the order in which they were recorded. Annotations and destinations of tools are today's.
// Journals have tokens without their origins: a token comes from the calls, files and the program of its run that show it, else its origin is unknown.
// Where values come from is found again in the tasks and the recorded answers of the session (gate.Recall).
//
// # Bounds
//
// The list of runs has the number of calls of each, so the calls are bounded before a journal is read. A journal is held in memory while its calls are judged,
// and one that is larger than Bounds.Bytes is not read. Whatever is left out is named in Looked.
package simulation
