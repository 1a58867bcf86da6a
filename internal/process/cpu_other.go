//go:build !linux

package process

import (
	"errors"
	"time"
)

// CPU is errors.ErrUnsupported: this system does not say what a process has used.
func CPU(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
