package process

import (
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

func prepare(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.CreationFlags |= windows.CREATE_NEW_PROCESS_GROUP
}

// job ends its processes when its last handle closes, which is when this process ends.
var job = sync.OnceValues(func() (windows.Handle, error) {
	h, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("create job: %w", err)
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
		},
	}
	_, err = windows.SetInformationJobObject(h, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		return 0, fmt.Errorf("configure job: %w", err)
	}
	return h, nil
})

func adopt(cmd *exec.Cmd) error {
	err := func() error {
		h, err := job()
		if err != nil {
			return err
		}
		p, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(cmd.Process.Pid))
		if err != nil {
			return fmt.Errorf("open child: %w", err)
		}
		defer windows.CloseHandle(p)
		return windows.AssignProcessToJobObject(h, p)
	}()
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return fmt.Errorf("tie %s to this process: %w", cmd.Path, err)
	}
	return nil
}
