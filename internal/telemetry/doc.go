// Package telemetry tells operators what the harness does: metrics, the log with its audit events, and traces. It is told
// names, ids, counts and times only; texts of users, models and programs do not come here, and what text there is (the
// messages of errors) passes Redact.
package telemetry
