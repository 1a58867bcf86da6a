//go:build unix && !linux

package supervisor

import "syscall"

// becomeSupervisor does nothing, because these systems have no subreapers.
func becomeSupervisor() {}

func serverAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// children returns nil: without a subreaper the only child is the server, whose group gets every signal anyway.
func children() []int { return nil }
