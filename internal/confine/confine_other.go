//go:build !linux

package confine

import (
	"fmt"
	"os"
	"syscall"
)

// Isolate fails, as Resolve does.
func (*Plan) Isolate(*syscall.SysProcAttr) error { return ErrMissing }

// Explain returns err.
func Explain(err error) error { return err }

// Start fails.
func Start(string, []string, *syscall.SysProcAttr) (int, error) { return 0, ErrMissing }

// Main fails.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, ErrMissing)
	return 2
}
