//go:build !linux

package confine

import (
	"fmt"
	"os"
	"syscall"
)

var errLinux = fmt.Errorf("%w: only Linux has the walls", ErrMissing)

// Isolate fails.
func (*Plan) Isolate(*syscall.SysProcAttr) error { return errLinux }

// Explain returns err.
func Explain(err error) error { return err }

// Start fails.
func Start(string, []string, *syscall.SysProcAttr) (int, error) { return 0, errLinux }

// Main fails.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, errLinux)
	return 2
}
