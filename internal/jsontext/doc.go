// Package jsontext reads JSON texts as they are written. It detects what a JavaScript program cannot represent: numbers with too many digits, the
// place of a key that looks like an index, and equal keys of one object.
//
// # Values pass as they are written
//
// The host passes JSON as text. Compact removes whitespace and equal keys, and keeps the order of keys, every digit and the spelling of strings. No value
// is decoded into a map.
//
// A JavaScript program cannot represent every value exactly. An integer beyond 2^53-1 becomes a BigInt, because a program can compare, count with, sort and
// print a BigInt, and an id from one answer goes unchanged into the next call. A string is not used for it, because tools that take integers refuse
// strings. A number object that keeps its text is not used either, because two such objects with the same text are not equal. JSON.stringify, the result of
// a program and the arguments of its calls contain the digits of a BigInt, so that programs that do not expect a BigInt also work. A number beyond the
// range of a double (1e400) becomes a string with its text. A decimal with more digits than a double has is rounded. Integer keys come first in
// JavaScript's objects, and the last of equal keys counts.
//
// For each of these cases, a run prints one line for each source, with the path of the first such value (internal/gate/told.go). The record of the answer
// contains these lines, so a replay prints the same. JSON.parse in programs treats texts in the same way (internal/guest/prelude/exact.js). In the wasm
// tier, the worker looks for such numbers, because a search with the engine's regular expressions takes as long as parsing.
//
// A server may send text, images and links beside structuredContent. What the structured content does not contain (Holds) is kept as the
// property $content of the result, which is not enumerable, and the run prints this once for each tool. If the result is a string or number,
// callMCPTool.raw returns both. TestValuesPassUnchanged passes generated values through every path.
package jsontext
