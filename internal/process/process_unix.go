//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

func start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}
