// Package telemetry provides metrics, the log with its audit events, and traces. It gets names, ids, counts and times, but no texts of users, models
// and programs. Other texts, such as messages of errors, pass through Redact.
package telemetry
