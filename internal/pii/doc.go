// Package pii replaces personal data in every text on its way to a model, a log, an event or the disk. Hide finds values with package detect
// and replaces each of them by a token. Restore puts the values back. The main callers are:
//
//   - package task: for the texts of requests, before anything is stored
//   - package runs: for programs, for the modules that they import, and for the instructions of the servers that they import
//   - package run: for everything that a guest sends: arguments, console lines, outputs, errors
//   - package gate: for every answer to a guest, a journal or a file, and for the arguments of tools
//   - package agent: for prompts and results, which become steps on the disk and texts for the model
//   - package api and the commands: Restore, for what the owner of a task or run receives
//   - package telemetry: the function that Redact returns, for messages and attributes of the log and of traces
//
// Journals, steps, events, webhooks and the model's conversation consist of these texts. Files that users put into their directories stay
// as they are, but what a program reads from them passes Hide.
//
// A token such as [EMAIL_1] stands for one value in one session. All spellings of a value share a token, and Restore returns the first
// spelling. A JSON number and each encoded spelling (escapes, percent-encoding, base64) have tokens of their own, because they could not
// be restored otherwise. A value that a program composes has a token of its own even if it equals a value from outside. So a program that
// guesses a value does not learn from the token whether the guess is right.
//
// With Options.Natural, the token of an e-mail address is itself an address: pii_1e@d1.pii.invalid (natural.go). Its domain is a value
// with its own token. A text may contain either part alone, in another case, or combined with a part of another token; a place (type place
// in token.go) is the range of a text that is restored as a unit. The token of an IP address is itself an IP address (network.go), and its
// networks are values with their own tokens.
//
// A text from outside that looks like a token is replaced by a token such as [LITERAL_1]. [LITERAL_1] is restored to that text, never to the
// value of another token.
//
// # Every text passes one function
//
// On its way to a model, a log, an event or the disk, every text passes pii.Session.Hide with its origin. On its way to a server, every argument
// of a tool passes RestoreArguments, which escapes values in code (package language). What the owner sees passes RestoreJSON or Restore
// (task/shown.go, runs/private.go, api/reveal.go). Everything else (journals, steps, events, webhooks, the model's conversation) is made of texts
// that were hidden before. TestPrivacy in wiring passes a value to a task in every possible way and searches for it in every place.
// docs/PRIVACY.md tells users what to expect.
//
// The tokens of a session are one table in memory (pii/table.go), loaded at first use. New tokens get their numbers there and are sent to
// the vault before the text is passed on. The vault in the store adds them to the next transaction of its writer (ride in
// store/sqlstore/writer.go), so a record that mentions a token is committed with the token or after it. In Redis, they are stored before the
// text is passed on.
//
// Owners read files in chunks (files.Content). Each chunk is restored up to a point outside of any token. A first pass records where each
// chunk begins in the restored content, and the content's size and hash, so downloads support ranges and an ETag in constant memory. An upload is
// written to a file beside the target (files.Part). The name of that file is made of hashes of the target's name and of a key. If the upload
// can be resumed, the key contains its id and the total size. After the last byte, the file is renamed to the target.
//
// The output of a model is stored unchanged, because providers expect their own turns back unchanged. It contains tokens instead of the
// values that were hidden from the model.
package pii
