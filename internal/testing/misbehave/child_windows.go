package misbehave

import (
	"os"
	"os/exec"
)

// beget starts a child that only a forced kill ends. On Windows a child cannot have a session of its own.
func beget(bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), kindVar+"="+sleeper)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr // the child keeps the pipes open
	return cmd.Start()
}
