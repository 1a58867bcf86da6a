package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/itchyny/gojq"
)

// compileFilter compiles an expression of --jq. The expression can read only the result, not the environment or files.
func compileFilter(expression string) (*gojq.Code, error) {
	query, err := gojq.Parse(expression)
	if err == nil {
		var code *gojq.Code
		if code, err = gojq.Compile(query); err == nil {
			return code, nil
		}
	}
	return nil, fmt.Errorf("--jq %q: %w; see https://jqlang.org/manual for expressions", expression, err)
}

// filtered prints the values that the expression of --jq makes of v, one per line. Strings are printed without quotes, other values as JSON.
func (a *app) filtered(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // keeps every digit
	var input any
	if err := decoder.Decode(&input); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	values := a.filter(input)
	for {
		value, ok := values.Next()
		if !ok {
			return nil
		}
		var halt *gojq.HaltError
		switch x := value.(type) {
		case error:
			if errors.As(x, &halt) && halt.Value() == nil {
				return nil
			}
			return fmt.Errorf("--jq %q: %w", a.flags.JQ, x)
		case string:
			fmt.Fprintln(a.Stdout, x)
		default:
			if err := a.encode(x); err != nil {
				return err
			}
		}
	}
}
