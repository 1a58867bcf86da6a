package process

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// clockTick is the unit of processor times in /proc: 1/USER_HZ, where USER_HZ is 100 on every architecture of Go.
const clockTick = 10 * time.Millisecond

// CPU returns the processor time that a process has used so far, in steps of 10 ms. On systems without this information, the error is errors.ErrUnsupported.
func CPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name of the program, in parentheses, may contain any characters. Fields 14 and 15 are user and system time.
	_, rest, _ := strings.Cut(string(stat[strings.LastIndex(string(stat), ")")+1:]), " ")
	var user, system time.Duration
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("the statistics of process %d have %d fields", pid, len(fields))
	}
	if _, err := fmt.Sscan(fields[11], &user); err != nil {
		return 0, err
	}
	if _, err := fmt.Sscan(fields[12], &system); err != nil {
		return 0, err
	}
	return (user + system) * clockTick, nil
}
