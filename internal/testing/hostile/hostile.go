// Package hostile has attacks in machine code: what a program would do that has escaped from its engine and executes code of its own. They
// run in a process behind the walls of a tier, against the machine outside. Without walls many of them succeed and do harm.
package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Target is what attacks aim at: what a process without walls reaches.
type Target struct {
	File string `json:"file"` // file of the host
	Dir  string `json:"dir"`  // directory of the host that every user may write to
	Port int    `json:"port"` // TCP port on which the host listens at 127.0.0.1
	Pid  int    `json:"pid"`  // process id of the host
	Run  string `json:"run"`  // a run of another user that is under way
}

// Attack is one attempt.
type Attack struct {
	// Do tries it. It returns what it got; an error where it failed.
	Do func(Target) (got string, err error)
	// Killed says that the jail of a worker kills a process that tries it.
	Killed bool
	// Within says that it may succeed in a container with a kernel of its own (gVisor), where it reaches nothing of the machine.
	Within bool
	// Alone says that it exhausts or stops the process, so that nothing can be tried after it.
	Alone bool
}

// begin and end enclose the names of attacks and their target in the text of a program.
const begin, end = "native:", ":evitan"

// Failed is the output of a program all of whose attacks have failed.
const Failed = `"failed"`

// Program is the text of a program that has attacks executed, one after another, where machine code can take the place of the engine.
func Program(target Target, names ...string) (string, error) {
	text, err := json.Marshal(target)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("console.log('%s%s %x%s'); return %s", begin, strings.Join(names, ","), text, end, Failed), nil
}

// Find looks for the attacks of a Program in a frame, and tries them until one succeeds. found is false where there are none. got is empty
// where all failed.
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
