package simulation

import (
	"errors"

	"mcp-code-exec-harness/internal/config"
)

// Mistake is an error in the text of a policy.
type Mistake struct {
	Line    int    `json:"line" doc:"From 1; 0: the whole text is meant."`
	Column  int    `json:"column" doc:"In characters, from 1; 0: the whole text is meant."`
	Key     string `json:"key,omitempty" example:"policy.rules.1.tools"`
	Message string `json:"message" doc:"What is wrong, and what to do."`
}

// Mistakes converts an error of config.ParsePolicy to the mistakes that it contains.
func Mistakes(err error) (all []Mistake) {
	if err == nil {
		return nil
	}
	each := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		each = joined.Unwrap()
	}
	for _, err := range each {
		of, ok := errors.AsType[*config.Error](err)
		if !ok {
			all = append(all, Mistake{Message: err.Error()})
			continue
		}
		line, column := of.Place()
		all = append(all, Mistake{line, column, of.Key, of.Problem})
	}
	return all
}
