// Package program compiles agent code, JavaScript or TypeScript as a model writes it, into a frame.Program that any
// runner can execute. A source map leads every position back to the code as written.
//
// The code may use top-level await and return and import statements, and may come in a markdown fence. A tokenizer
// finds its import declarations, which are blanked in place, so that no position changes. The rest becomes an async
// arrow function whose parameters bind the imports. Imports of skills, workspace files, servers, packages and
// built-in modules are resolved at compile time; CompileModule resolves require and import() at run time.
//
// A program that is plain JavaScript reaches the engine as written. esbuild prints other programs, and the variables that esbuild renamed get
// their names back. A program with import or export declarations, or with "use strict", is strict; other programs are sloppy, as in Node.js.
//
// As in TypeScript, an import is dropped without being resolved if none of its names is used as a value.
//
// # What the engine receives
//
// A program is compiled inside an async function, for its top-level await and return. esbuild parses it and prints it twice: with types
// removed and new syntax lowered, and without both steps. If the two texts are equal, the program is plain JavaScript and reaches the
// engine as written, so that names, toString and messages are those of the source. Otherwise the engine gets esbuild's output; variables
// that esbuild renamed get their names back by its source map (unrename.go). TypeScript allows namespaces at the top level only. So a
// program with namespaces is compiled as a module in which throw replaces return, and put into the function afterwards (namespace.go).
// import and export declarations or "use strict" make a program strict.
//
// # Programs are checked before they run
//
// After the code is compiled, the compiler process reads how the program uses tools (program/uses): a list of values, each derived from
// earlier ones, such as a call of a member of tools, an awaited call, a field of its result. The list does not depend on the tools, so it
// is cached with the compiled program. program/check compares the list with the catalog, using the types that declarations are written
// from (catalog/dts), and reports what does not exist. Code or types that program/uses or program/check does not understand count as
// unknown and are not reported. The list comes from a process that reads hostile text, so program/check trusts no number in it, and its
// work is bounded. Warnings are recorded in the start record; replay and resume show the recorded warnings.
package program
