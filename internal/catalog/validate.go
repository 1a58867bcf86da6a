package catalog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"mcp-code-exec-harness/internal/catalog/schema"
	"mcp-code-exec-harness/internal/clip"
)

// InvalidInputError says what in a tool's input does not fit its schema, in words that help to correct the program. It names paths, rules and types,
// and contains no value of the input.
type InvalidInputError struct {
	Tool     string
	Problems []string // descriptions, at most maxProblems
}

func (e *InvalidInputError) Error() string {
	if len(e.Problems) == 1 {
		return fmt.Sprintf("invalid input for %s: %s", e.Tool, e.Problems[0])
	}
	return fmt.Sprintf("invalid input for %s:\n- %s", e.Tool, strings.Join(e.Problems, "\n- "))
}

// Validate checks an input against the tool's schema on behalf of an owner. The error is an *InvalidInputError, or the error of ctx if that ends
// first. A tool without a usable schema takes everything; SchemaProblem says why. The schema is compiled at the first call. Validate estimates the
// work first: it refuses an input that needs too much, and waits for the owner's slot if the check is expensive.
func (c *Catalog) Validate(ctx context.Context, owner string, t *Tool, input json.RawMessage) error {
	v := t.validator()
	if v.compiled == nil {
		return nil
	}
	problems, err := v.check(ctx, input, func() (func(), error) {
		release, err := c.checks.Acquire(ctx, owner, 1)
		if err != nil {
			return nil, fmt.Errorf("wait for a slot to check the input: %w", err)
		}
		return release, nil
	})
	if err != nil {
		return fmt.Errorf("validate input of %s: %w", t.FullName(), err)
	}
	if len(problems) == 0 {
		return nil
	}
	return &InvalidInputError{Tool: t.FullName(), Problems: problems}
}

// SchemaProblem returns the reason why input is not checked before a call, or not fully. It returns an empty string if input is checked.
func (t *Tool) SchemaProblem() string { return t.validator().broken }

func (t *Tool) validator() *validator { return t.get().validator() }

// Limits of the schemas and inputs that are checked.
const (
	maxExponent = 400 // maximum exponent of a number; that of a double is 308
	// maxInputValues is the maximum number of values of an input that is checked. The server checks a larger input itself: each value may have an error,
	// and the library collects all errors.
	maxInputValues = 200_000
)

// validator is a compiled input schema. It is safe for concurrent use.
type validator struct {
	root         *schema.Value
	compiled     *jsonschema.Schema
	broken       string
	instructions int // instructions of the schema's patterns
}

func newValidator(raw json.RawMessage) (v *validator) {
	v = &validator{}
	if len(bytes.TrimSpace(raw)) == 0 {
		return v
	}
	defer func() {
		// The schema comes from a server. Even if it makes the compiler panic, the tool stays usable.
		if r := recover(); r != nil {
			v.compiled, v.broken = nil, fmt.Sprintf("the input schema cannot be compiled: %v", r)
		}
	}()
	if err := v.compile(raw); err != nil {
		v.broken = "the input schema is not usable, input is not checked: " + clip.Text(strings.Join(strings.Fields(err.Error()), " "), 300)
	}
	return v
}

// schemaURL is the address of the schema inside the compiler; nothing is loaded from it.
const schemaURL = "mem:///input"

func (v *validator) compile(raw json.RawMessage) (err error) {
	if v.root, err = schema.Parse(raw); err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	if !inRange(doc) {
		return errors.New("it has a number that is out of range")
	}
	cutCycles(doc)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(refuse{})
	c.UseRegexpEngine(v.pattern)
	if err := c.AddResource(schemaURL, doc); err != nil {
		return err
	}
	v.compiled, err = c.Compile(schemaURL)
	return err
}

// refuse is a loader that loads nothing: a schema from a server must not make this process read files or the network.
type refuse struct{}

func (refuse) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

// check returns what does not fit, in words, or nothing if everything fits. Before an expensive check it calls admit, which waits for a slot. If ctx
// ends, an expensive check continues in its slot until it is done, which takes at most about maxWork units.
func (v *validator) check(ctx context.Context, input json.RawMessage, admit func() (func(), error)) ([]string, error) {
	if exceeds(input, maxInputValues) {
		return nil, nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	if err != nil {
		return []string{"the input is not valid JSON"}, nil
	}
	if !inRange(value) {
		return []string{"the input has a number that is out of range"}, nil
	}
	w := work{ctx: ctx}
	w.apply(v.compiled, value, position{})
	switch {
	case w.stopped != nil:
		return nil, w.stopped
	case w.unknown:
		return nil, nil
	case w.units > maxWork:
		return []string{fmt.Sprintf("the input is too complex to be checked against the schema (more than %d units of work); "+
			"send less in one call, or nest it less deeply", maxWork)}, nil
	case w.units <= smallWork:
		return v.problems(value), nil
	}
	release, err := admit()
	if err != nil {
		return nil, err
	}
	found := make(chan []string, 1)
	go func() {
		defer release()
		found <- v.problems(value)
	}()
	select {
	case problems := <-found:
		return problems, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// problems validates a value and describes what does not fit.
func (v *validator) problems(value any) (problems []string) {
	defer func() {
		// The schema comes from a server and may make the library panic.
		if r := recover(); r != nil {
			problems = []string{"the input cannot be checked against the schema"}
		}
	}()
	var invalid *jsonschema.ValidationError
	if err := v.compiled.Validate(value); errors.As(err, &invalid) {
		x := explainer{root: v.root, input: value}
		x.gather(invalid)
		return x.list()
	}
	return nil
}

// exceeds reports whether a JSON document has more than about limit values. It does not decode the document, which would cost many times its size.
func exceeds(raw json.RawMessage, limit int) bool {
	values, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == ',' || c == '[' || c == '{'):
			values++
		}
	}
	return values > limit
}

// inRange reports whether the numbers in a value are small enough for cheap arithmetic: 1e999999 is short only as text.
func inRange(value any) bool {
	switch value := value.(type) {
	case json.Number:
		_, exponent, _ := strings.Cut(strings.ToLower(value.String()), "e")
		n, err := strconv.Atoi(cmp.Or(exponent, "0"))
		return err == nil && len(value) < maxExponent && n < maxExponent && n > -maxExponent
	case []any:
		return !slices.ContainsFunc(value, func(item any) bool { return !inRange(item) })
	case map[string]any:
		for _, item := range value {
			if !inRange(item) {
				return false
			}
		}
	}
	return true
}
