//go:build unix && !linux

package mcpclient

import "syscall"

// becomeSupervisor has nothing to ask of the system: there are no subreapers.
func becomeSupervisor() {}

func serverAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// children is empty: without a subreaper the only child is the server, whose group is signalled anyway.
func children() []int { return nil }
