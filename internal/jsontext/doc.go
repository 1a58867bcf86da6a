// Package jsontext reads JSON texts as they are written. It knows what a JavaScript program cannot have of one: every digit of a number,
// the place of a key that looks like an index, two values of one key.
//
// # Values pass as they are written
//
// JSON goes through the host as text: jsontext.Compact removes whitespace and equal keys and keeps the order of keys, every digit and the
// spelling of strings; nothing on the way of a value decodes it into a map. A program in JavaScript cannot have all of it (jsontext): an
// integer beyond 2^53-1 is a BigInt there, because it can be compared, counted with, sorted and printed, and an id that comes from one
// answer goes unchanged into the next call; a string would be refused by tools that take integers, and a number object that remembers its
// text is equal to nothing, not even itself read twice. So that programs which know nothing of it work, JSON.stringify, what a program
// returns and what it sends write its digits. What lies beyond the range of a double (1e400) is a string with its text. A decimal with more
// digits than a double has is rounded; integer keys come first in JavaScript's objects; of equal keys the last counts. Of each of these,
// and of BigInt, a run prints one line for each source, with the path of the first such value (gate/told.go). The answer's record has what
// was told, so a replay tells the same. JSON.parse in programs does the same with texts (prelude/exact.js; in the wasm tier the worker
// looks for such numbers, since the engine's regular expressions take as long as parsing).
//
// What a server says in text beside structuredContent, and images and links there, is kept where the structured content does not have it
// anywhere (jsontext.Holds): as the property $content of the result, which is not enumerable, and the run says so once for each tool. Where
// the result is a string or number, callMCPTool.raw gives both. TestValuesPassUnchanged passes generated values by every way.
package jsontext
