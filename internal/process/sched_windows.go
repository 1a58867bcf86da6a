package process

import (
	"os"

	"golang.org/x/sys/windows"
)

// Lower lowers the priority of a child.
func Lower(p *os.Process) {
	handle, err := windows.OpenProcess(windows.PROCESS_SET_INFORMATION, false, uint32(p.Pid))
	if err != nil {
		return // the process has ended
	}
	defer windows.CloseHandle(handle)
	windows.SetPriorityClass(handle, windows.BELOW_NORMAL_PRIORITY_CLASS)
}

// Freeze always returns false, because Windows has no documented call for it.
func Freeze(*os.Process, bool) bool { return false }
