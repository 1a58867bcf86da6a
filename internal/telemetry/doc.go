// Package telemetry has metrics, the log with its audit events, and traces. It gets names, ids, counts and times, no texts of users,
// models and programs; other texts, such as messages of errors, pass Redact.
package telemetry
