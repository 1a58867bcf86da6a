// Package hostile contains attacks in machine code: what a program can try once it has escaped from its engine and executes code of its
// own. They run in a process behind the walls of a tier, and attack the machine outside. Without walls many of them succeed and do harm.
package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Target is what the attacks aim at, all within reach of a process without walls.
type Target struct {
	File string `json:"file"` // file of the host
	Dir  string `json:"dir"`  // directory of the host that every user may write to
	Port int    `json:"port"` // TCP port on which the host listens at 127.0.0.1
	Pid  int    `json:"pid"`  // process id of the host
	Run  string `json:"run"`  // a running run of another user
}

// Attack is one kind of attempt.
type Attack struct {
	// Do makes the attempt. It returns what it gained, or an error if it failed.
	Do func(Target) (got string, err error)
	// Killed reports whether the jail of a worker kills a process that makes the attempt.
	Killed bool
	// Within reports whether the attempt may succeed in a container with its own kernel (gVisor), where it does not reach the machine.
	Within bool
	// Alone reports whether the attempt exhausts or stops the process, so that no other can follow.
	Alone bool
}

// begin and end enclose the names of the attacks and their target in the text of a program.
const begin, end = "native:", ":evitan"

// Failed is the output of a program if all of its attacks have failed.
const Failed = `"failed"`

// Program returns the text of a program that requests attacks, to be executed in order where machine code takes the place of the engine.
func Program(target Target, names ...string) (string, error) {
	text, err := json.Marshal(target)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("console.log('%s%s %x%s'); return %s", begin, strings.Join(names, ","), text, end, Failed), nil
}

// Find looks for the attacks of a Program in a frame, and tries them until one succeeds. found is false if the frame has none. got is
// empty if all failed.
func Find(line []byte) (got string, found bool) {
	_, after, ok := bytes.Cut(line, []byte(begin))
	text, _, closed := bytes.Cut(after, []byte(end))
	if !ok || !closed {
		return "", false
	}
	names, encoded, _ := strings.Cut(string(text), " ")
	var target Target
	var decoded []byte
	if _, err := fmt.Sscanf(encoded, "%x", &decoded); err != nil {
		return "a target that cannot be read: " + err.Error(), true
	}
	if err := json.Unmarshal(decoded, &target); err != nil {
		return "a target that cannot be read: " + err.Error(), true
	}
	for name := range strings.SplitSeq(names, ",") {
		attack, known := Attacks[name]
		if !known {
			return "there is no attack " + name, true
		}
		if got, err := attack.Do(target); err == nil {
			return name + " succeeded: " + got, true
		}
	}
	return "", true
}
