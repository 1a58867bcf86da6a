// Package program turns agent code, JavaScript or TypeScript as a model writes it, into a frame.Program that any runner
// can execute, with a source map that leads every position back to the code as written.
//
// The code may use top-level await and return, import statements, and may come in a markdown fence. Its import
// declarations are found by a tokenizer and blanked in place, so that nothing moves; the rest becomes an async arrow
// function whose parameters bind the imports. Imports of skills, workspace files, servers, packages and built-in
// modules are resolved when it is compiled; require and import() are resolved while it runs, by CompileModule.
//
// A program that is plain JavaScript reaches the engine as it is written. Others are printed by esbuild, whose renamed variables get their
// names back. A program with import or export declarations, or with "use strict", is strict; others are sloppy, as in Node.js.
//
// As in TypeScript, an import none of whose names is used as a value is dropped without being resolved.
//
// # What the engine gets of a program
//
// A program is compiled inside an async function, for its top-level await and return. esbuild parses it. If esbuild prints it without types
// and without lowering as it does with both, the program is plain JavaScript and reaches the engine as it is written, so that names,
// toString and messages are those of the source. Otherwise the engine gets what esbuild prints; variables that esbuild renamed get their
// names back by its source map (program/unrename.go). A program with namespaces, which TypeScript allows at the top level only, is compiled
// as a module whose return is written throw, and put into the function afterwards (program/namespace.go). import and export declarations or
// "use strict" make a program strict.
//
// # Programs are checked before they run
//
// With the code compiled, the compiler's process reads what the program does with tools (program/uses): a list of values, each made of
// earlier ones, such as a call of a member of tools, an awaited call, a field of that. It knows no tool, so that the list is cached with
// the compiled program. program/check holds the list against the catalog, in the types that declarations are written from (catalog/dts),
// and reports what does not exist. What either does not understand is unknown, and unknown is silence. The list comes from a process that
// reads hostile text, so the check trusts no number in it, and its work is bounded. Warnings stand in the start record: replay and resume
// show those.
package program
