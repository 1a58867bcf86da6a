//go:build !linux

package program

import "time"

var processStart = time.Now()

// cpuTime is the time that has passed: nothing better is at hand here.
func cpuTime() time.Duration { return time.Since(processStart) }
