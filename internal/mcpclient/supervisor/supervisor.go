// Package supervisor is the process between the harness and a stdio server: it ends the server with all its descendants.
package supervisor

import "time"

const (
	// Command is the internal command whose arguments are those of [Main].
	Command = "__supervise"
	// Name is the name of a supervisor's process. A command that kills all processes named harness does not kill supervisors.
	Name = "mcp-supervise"
	// ConfineFlag is the prefix of the argument with the plan of a sandbox.
	ConfineFlag = "--confine="

	EOFGrace  = 500 * time.Millisecond // time for a server to exit after its stdin was closed
	TermGrace = 2 * time.Second        // time from SIGTERM to SIGKILL
	KillGrace = 5 * time.Second        // time for the kernel to end killed processes; only a process stuck in a driver takes longer
)
