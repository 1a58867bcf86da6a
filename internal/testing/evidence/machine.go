package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// machine is where and on what the figures of a file were measured.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory string `json:"memory"`
	System string `json:"system"` // operating system, architecture and kernel
	Go     string `json:"go"`
	Node   string `json:"node,omitempty"` // version of Node.js, beside which programs that compute are measured
	// Commit ends in "-dirty" if files differed from it.
	Commit string `json:"commit"`
	Date   string `json:"date"`
	// LoadBefore and LoadAfter are the load averages of one minute, before the first command and after the last. The commands themselves are a part of the second.
	LoadBefore string `json:"loadBefore"`
	LoadAfter  string `json:"loadAfter"`
}

func thisMachine(ctx context.Context) machine {
	return machine{
		CPU: valueIn("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), Memory: valueIn("/proc/meminfo", "MemTotal"),
		System: strings.TrimSpace(runtime.GOOS + "/" + runtime.GOARCH + " " + firstWords("/proc/sys/kernel/osrelease", 1)),
		Go:     runtime.Version(), Node: says(ctx, "node", "--version"), Commit: says(ctx, "git", "describe", "--always", "--dirty"),
		Date: time.Now().UTC().Format("2006-01-02 15:04 UTC"), LoadBefore: load1(),
	}
}

func load1() string { return firstWords("/proc/loadavg", 1) }

// firstWords returns the first n words of a file, or "" if the file does not exist.
func firstWords(path string, n int) string {
	text, _ := os.ReadFile(path)
	words := strings.Fields(string(text))
	return strings.Join(words[:min(n, len(words))], " ")
}

// valueIn returns the value after "key:" in a file, or "" if there is none.
func valueIn(path, key string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func says(ctx context.Context, name string, args ...string) string {
	out, _ := exec.CommandContext(ctx, name, args...).Output()
	return strings.TrimSpace(string(out))
}

// echoCommand makes this program repeat its input, which yardstick uses.
const echoCommand = "__echo"

// yardstick returns the time in milliseconds of a fixed work: 32 MiB are hashed, and 1,000 lines go to a child process and back, five times; the median. Figures
// of time are divided by it, so that those of machines of different speed and load can be compared.
func yardstick(ctx context.Context) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	child := exec.CommandContext(ctx, self, echoCommand)
	in, err := child.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := child.Start(); err != nil {
		return 0, fmt.Errorf("start the process of the yardstick: %w", err)
	}
	var all []float64
	data, line := make([]byte, 32<<20), []byte("a line that goes to a child process and back\n")
	back := bufio.NewReader(out)
	for range 5 {
		began := time.Now()
		_ = sha256.Sum256(data)
		for range 1000 {
			if _, err := in.Write(line); err != nil {
				return 0, err
			}
			if _, err := back.ReadSlice('\n'); err != nil {
				return 0, err
			}
		}
		all = append(all, float64(time.Since(began))/float64(time.Millisecond))
	}
	in.Close()
	slices.Sort(all)
	return all[len(all)/2], child.Wait()
}
