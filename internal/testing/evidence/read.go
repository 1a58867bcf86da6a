package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// counts are the results of one test and its subtests. A test that has subtests is counted itself only if it failed.
type counts struct {
	Name    string   `json:"name"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed,omitempty"`
	Skipped []string `json:"skipped,omitempty"` // names of skipped subtests, or of the test
}

// readNumber returns the claim's figure in the output of its command.
func (c claim) readNumber(output []byte) (float64, error) {
	if c.Match != "" {
		found := regexp.MustCompile(c.Match).FindSubmatch(output)
		if found == nil {
			return 0, fmt.Errorf("the output has no %q", c.Match)
		}
		return strconv.ParseFloat(strings.ReplaceAll(string(found[1]), ",", ""), 64)
	}
	var value any
	if err := json.Unmarshal(output, &value); err != nil {
		return 0, fmt.Errorf("the output is not JSON: %w", err)
	}
	for _, step := range c.JSON {
		next, err := descend(value, step)
		if err != nil {
			return 0, err
		}
		value = next
	}
	number, ok := value.(float64)
	if !ok {
		return 0, fmt.Errorf("%s is no number", strings.Join(c.JSON, " > "))
	}
	return number, nil
}

func descend(value any, step string) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		if next, ok := v[step]; ok {
			return next, nil
		}
	case []any:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(v) {
			return v[i], nil
		}
		for _, item := range v {
			if object, ok := item.(map[string]any); ok && object["name"] == step {
				if object["skipped"] == true {
					return nil, fmt.Errorf("skipped: %v", object["note"])
				}
				return item, nil
			}
		}
	}
	return nil, fmt.Errorf("the output has no %q", step)
}

// readTests counts the results of the named tests in the output of go test -json. A test without a result has failed.
func readTests(names []string, output []byte) ([]counts, error) {
	actions := map[string]string{}
	parents := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(output))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct{ Action, Test string }
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.Test == "" {
			continue // a message of the compiler, or an event of the package
		}
		for i, r := range event.Test {
			if r == '/' {
				parents[event.Test[:i]] = true
			}
		}
		switch event.Action {
		case "pass", "fail", "skip":
			actions[event.Test] = event.Action
		case "run":
			if _, ended := actions[event.Test]; !ended {
				actions[event.Test] = "fail" // A test that does not end has failed.
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the output of go test: %w", err)
	}
	var all []counts
	for _, name := range names {
		c := counts{Name: name}
		if _, ran := actions[name]; !ran {
			c.Failed = 1
		}
		for test, action := range actions {
			if test != name && !strings.HasPrefix(test, name+"/") {
				continue
			}
			switch {
			case action == "fail" && (!parents[test] || test == name):
				c.Failed++
			case parents[test]:
			case action == "pass":
				c.Passed++
			case action == "skip":
				c.Skipped = append(c.Skipped, test)
			}
		}
		slices.Sort(c.Skipped)
		all = append(all, c)
	}
	return all, nil
}
