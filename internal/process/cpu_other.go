//go:build !linux

package process

import (
	"errors"
	"time"
)

// CPU returns errors.ErrUnsupported, because this system does not report the processor time of a process.
func CPU(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
