package cli

import (
	"os"

	"golang.org/x/sys/windows"
)

// obeysSequences enables escape sequences and reports whether the console understands them. Consoles before Windows 10 print
// them.
func obeysSequences(f *os.File) bool {
	var mode uint32
	handle := windows.Handle(f.Fd())
	if windows.GetConsoleMode(handle, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(handle, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
