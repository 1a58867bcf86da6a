// Package origin records the values in the answers of tools and in the texts of a user, so that policy can judge where a value in the arguments of a
// call comes from.
//
// # What is remembered
//
// A Session keeps, for a run or a session of runs, a keyed 64-bit hash of each string, number and key of each answer, and of their parts: lines,
// fields between punctuation, words, segments of URLs and addresses, and the texts that percent-encoding and base64 decode to (parts.go). Parts of
// answers have at least MinPart bytes; those of a user's texts may be shorter. Values are normalised first: case and white space do not count. With
// each hash, it keeps the origins of the value: the names of up to MaxOrigins tools whose answers contained the value, and whether a text of the user
// contained it. Each of these tools, and the user, "said" the value. A session does not keep the values themselves.
//
// # An echo is no origin
//
// A tool does not become an origin of a value that a program has sent to a server before: an answer such as "no contact has the account X" must not
// make the server of contacts an origin of X. Sent therefore marks values, and from then on no further tool becomes an origin of a marked value.
// Numbers of up to five digits are not marked, because they occur in too many calls. The user's texts always count.
//
// # Bounds
//
// The hash table of a session grows by doubling. Before it grows, the session reserves the bytes within the bounds of its owner and of all
// sessions. A session that no run uses stays until other sessions need the memory. When the memory is full, a session records no further values.
// From then on, a value that the session does not know may have an origin, and Found.Complete is false. The work is linear in the texts: each
// level of parts divides the text, and overlapping parts have a bounded number of words and segments (parts.go).
//
// A session can be rebuilt from the journals of its runs (gate/origins.go), so nothing of it is stored.
package origin
