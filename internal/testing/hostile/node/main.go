// Command node takes the place of Node.js in the tiers that use it. It acts like a program that has escaped with machine code of its own, and
// executes the attacks that a hostile.Program names.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/testing/hostile"
)

// version is a version of Node.js that the guest runtime works with.
const version = "v20.0.0"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		fmt.Println(version)
		return
	}
	missing := map[string]string{} // missing walls, as a container would report them
	if version, err := os.ReadFile("/proc/version"); err != nil || !strings.Contains(strings.ToLower(string(version)), "gvisor") {
		missing["kernel of its own"] = "it has the machine's"
	}
	if text, jailed := os.LookupEnv(jail.MissingVariable); jailed {
		missing = map[string]string{}
		if json.Unmarshal([]byte(text), &missing) != nil || len(missing) > 0 {
			return // this machine must not be attacked
		}
	}
	send(frame.Frame{T: frame.Ready, Engine: version, Missing: missing})
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for { // In some tiers the text of the runner comes first.
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		if bytes.HasPrefix(line, []byte(`{"t":"start"`)) {
			start(line)
			break
		}
	}
	_, _ = io.Copy(io.Discard, in) // returns when the process is killed
}

func start(line []byte) {
	var f frame.Frame
	if err := json.Unmarshal(line, &f); err != nil {
		return
	}
	value := json.RawMessage(hostile.Failed)
	got, found := hostile.Find(line)
	if !found {
		got = "no attack"
	}
	if got != "" {
		value, _ = json.Marshal(got) // a text
	}
	send(frame.Frame{T: frame.Done, Run: f.Run, Value: value})
}

func send(f frame.Frame) {
	_ = json.NewEncoder(os.Stdout).Encode(f)
}
