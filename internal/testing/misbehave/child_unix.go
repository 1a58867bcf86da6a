//go:build unix

package misbehave

import (
	"os"
	"os/exec"
	"syscall"
)

// beget starts a child that only a forced kill ends.
func beget(ownSession bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), kindVar+"="+sleeper)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr // the child keeps the pipes open
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: ownSession}
	return cmd.Start()
}
