package bench

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"mcp-code-exec-harness/internal/frame"
)

// waiting measures the private memory of a worker whose program waits for a call.
func (b *bench) waiting(ctx context.Context) (Figure, error) {
	var all []float64
	for range b.repetitions(10) {
		r, err := b.tier.Start(ctx)
		if err != nil {
			return Figure{}, err
		}
		err = func() error {
			defer func() {
				r.Kill()
				for range r.Frames() {
				}
			}()
			program := &frame.Program{Code: "(async (_imprt) => { const a = Array.from({length: 1000}, (_, i) => ({i})); await callMCPTool('x', {}); return a })"}
			err := r.Send(&frame.Frame{
				T: frame.Start, Run: "run_wait", Now: 1, Seed: strings.Repeat("5a", 32), Program: program,
				Limits: &frame.Limits{Memory: 100 << 20, InFlight: 10, MaxValue: 1 << 20},
			})
			if err != nil {
				return err
			}
			for f := range r.Frames() {
				switch f.T {
				case frame.Idle:
					kib, err := private(r.Pid())
					all = append(all, kib/1024)
					return err
				case frame.Done:
					text, _ := json.Marshal(f)
					return fmt.Errorf("the program did not wait: %s", text)
				}
			}
			return r.Err()
		}()
		if err != nil {
			return Figure{}, err
		}
	}
	sum := 0.0
	for _, mib := range all {
		sum += mib
	}
	return Figure{Unit: "MiB", P50: sum / float64(len(all)), Budget: 16, Note: "private memory of its process, mean"}, nil
}

// private returns the anonymous memory of a process in KiB, which no other process shares. It does not use the number that the kernel calls private,
// because that includes pages of the snapshot while there is only one worker. All workers share the pages of the snapshot that they have only read.
func private(pid int) (float64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var name string
		var kib float64
		if n, _ := fmt.Sscanf(lines.Text(), "%s %f kB", &name, &kib); n == 2 && name == "Anonymous:" {
			return kib, nil
		}
	}
	return 0, cmp.Or(lines.Err(), errors.New("the kernel does not tell anonymous memory"))
}
