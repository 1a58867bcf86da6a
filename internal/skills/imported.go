package skills

import (
	"errors"
	"fmt"
)

// HeaderName returns the name in the head of a SKILL.md. The error says why it is not one that a skill can be installed under.
func HeaderName(text string) (string, error) {
	f, err := parseFront(text)
	if err != nil {
		return "", err
	}
	switch name := string(f.Name); {
	case name == "":
		return "", errors.New("SKILL.md has no name in its head")
	case !hyphenCase().MatchString(name) || len(name) > 64:
		return "", fmt.Errorf("SKILL.md: name %q must be lower-case words joined by hyphens, at most 64 characters", oneLine(name))
	default:
		return name, nil
	}
}
