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

// begin and end enclose an attack's name and target in the text of a program.
const begin, end = "native:", ":evitan"

// Failed is the output of a program whose attack has failed.
const Failed = `"failed"`

// Program is the text of a program that has an attack executed where machine code can take the place of the engine.
func Program(name string, target Target) (string, error) {
	text, err := json.Marshal(target)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("console.log('%s%s %x%s'); return %s", begin, name, text, end, Failed), nil
}

// Find looks for the attack of a Program in a frame, and tries it. found is false where there is none. got is empty where the attack failed.
func Find(line []byte) (got string, found bool) {
	_, after, ok := bytes.Cut(line, []byte(begin))
	text, _, closed := bytes.Cut(after, []byte(end))
	if !ok || !closed {
		return "", false
	}
	name, encoded, _ := strings.Cut(string(text), " ")
	var target Target
	var decoded []byte
	if _, err := fmt.Sscanf(encoded, "%x", &decoded); err != nil {
		return "a target that cannot be read: " + err.Error(), true
	}
	if err := json.Unmarshal(decoded, &target); err != nil {
		return "a target that cannot be read: " + err.Error(), true
	}
	attack, known := Attacks[name]
	if !known {
		return "there is no attack " + name, true
	}
	got, err := attack.Do(target)
	if err != nil {
		return "", true
	}
	return "succeeded: " + got, true
}
