package skills

import (
	"encoding/json"
	"errors"
)

// Frontmatter returns everything that the head of a SKILL.md says, as a JSON object. The error says why there is none.
func Frontmatter(text string) (json.RawMessage, error) {
	var all map[string]any
	if err := decodeFront(text, &all); err != nil {
		return nil, err
	}
	object, err := json.Marshal(all)
	if err != nil {
		return nil, errors.New("the head of SKILL.md has a value that JSON does not have")
	}
	return object, nil
}
