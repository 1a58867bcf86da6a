// Package pii replaces personal data in every text on its way to a model, a log, an event or the disk. Hide puts a token in
// place of each value that package detect finds; Restore puts the values back. They are called by
//
//   - package task: for the texts of requests, before anything is stored
//   - package runs: for programs and the modules and instructions of servers that they import
//   - package run: for all that a guest sends: arguments, console lines, outputs, errors
//   - package gate: for every answer to a guest, a journal and a file, and for the arguments of tools
//   - package agent: for prompts and results, which become steps on the disk and texts for the model
//   - package api and the commands: Restore, for what a task or run gives its owner
//   - package telemetry: for messages and attributes of the log and of traces (Redact)
//
// Journals, steps, events, webhooks and the model's conversation consist of these texts. Files that users put into their
// directories stay as they are; what a program reads of them passes Hide.
//
// A token such as [EMAIL_1] stands for one value in one session. All spellings of a value share a token, and Restore gives the
// spelling that came first. These have tokens of their own, because they could not be restored otherwise: a value as a number in
// JSON, and each encoded spelling (escapes, percent signs, base64). So do values that a program puts together: their tokens say
// nothing about the tokens of values that came from outside, so that a program cannot find those by guessing.
//
// With Options.Natural, an e-mail address has a token that is one: pii_1e@d1.pii.invalid (natural.go). Its domain is a value of its own. A text may have
// either part alone, in another case, or beside another part; a place in a text (place in token.go) is what is restored together. An IP address has a
// token that is one, too (network.go), and its networks are values of their own.
//
// A text from outside that looks like a token gets a token itself, [LITERAL_1]: it is restored as the text it was, and never
// as the value of a token.
//
// # Every text passes one function
//
// On its way to a model, a log, an event or the disk, every text passes pii.Session.Hide with its origin; on its way to a server, every
// argument of a tool passes RestoreArguments, which escapes values in code (package language), and what the owner is shown passes RestoreJSON (wiring/privacy.go, api/reveal.go). pii says who calls them;
// whatever else there is (journals, steps, events, webhooks, the model's conversation) is made of texts that were hidden before.
// TestPrivacy in wiring lets a value into a task by every way there is and looks for it in every place. docs/PRIVACY.md says what users may
// expect.
//
// A session's tokens are one table in memory (pii/table.go), loaded at first use. New ones get their numbers there and go to the vault
// before the text goes on. The vault in the store adds them to the next transaction of its writer, whatever that is (ride in
// store/sqlite/writer.go): the record that mentions a token is committed with it or after it. In Redis they are stored before the text goes
// on.
//
// A file's owner reads it in chunks (files.Content): each is restored up to a place that is in no token, and where each begins in what is
// read is noted on a first pass, with size and hash. So downloads have ranges and an ETag in constant memory. Uploads are written beside
// the file (files.Part), under a name made of the file's and of a key, the file's size where an upload may go on later; the last byte
// renames them.
//
// What a model writes is kept as it wrote it, because providers want their own turns back unchanged; it has seen tokens only.
package pii
