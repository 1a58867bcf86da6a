package misbehave

import (
	"os"
	"os/exec"
)

// beget starts a child that outlives every polite end. Sessions of its own do not exist here.
func beget(bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), kindVar+"="+sleeper)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr // the child holds the pipes open
	return cmd.Start()
}
