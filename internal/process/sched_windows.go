package process

import (
	"os"

	"golang.org/x/sys/windows"
)

// Lower lets other processes have the processors before this child.
func Lower(p *os.Process) {
	handle, err := windows.OpenProcess(windows.PROCESS_SET_INFORMATION, false, uint32(p.Pid))
	if err != nil {
		return // the thread has ended
	}
	defer windows.CloseHandle(handle)
	windows.SetPriorityClass(handle, windows.BELOW_NORMAL_PRIORITY_CLASS)
}

// Freeze reports that Windows has no call for it that is documented.
func Freeze(*os.Process, bool) bool { return false }
