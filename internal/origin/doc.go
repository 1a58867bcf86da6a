// Package origin remembers which values the answers of tools and the texts of a user held, so that policy can judge where a value in the
// arguments of a call comes from.
//
// # What is remembered
//
// A Session keeps, for a run or a session of runs, a keyed hash of 64 bits of each string, number and key of each answer, and of their parts: lines,
// fields between punctuation, words, segments of URLs and addresses, and what percent-encoding and base64 decode to (parts.go). Parts of answers have
// MinPart letters or more; those of a user's texts may be shorter. Values are normalised first: case and white space do not count. With each hash go
// the names of up to MaxOrigins tools that said the value, and whether the user did. No value is kept.
//
// # An echo says nothing
//
// What a program has sent to a server is no saying of a tool that answers with it later: an answer such as "no contact has the account X" must not make X a
// value of the contacts. So Sent marks values, and from then on a tool is no origin of them unless it was one before. Numbers of up to five digits are
// not marked: they are in too many calls to tell anything. The user's texts count whenever they come.
//
// # Bounds
//
// A table grows by doubling; its bytes are taken from the bounds of its owner and of all before that. Sessions that no run uses stay until others need the
// room. Where there is none, a session takes no further values: a value that it does not know is then of unknown origin, and Found.Complete says so. The
// work is linear in the texts: each level of parts divides the text, and the parts that overlap are runs among so many words and segments (parts.go).
//
// A session is made again from the journals of its runs (gate/origins.go), so that nothing of it is stored.
package origin
