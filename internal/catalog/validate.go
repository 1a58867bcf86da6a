package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"mcp-code-exec-harness/internal/catalog/schema"
)

// InvalidInputError says what in a tool's input does not fit its schema, in words that help to correct the program. It
// names paths, rules and types; it holds no value of the input.
type InvalidInputError struct {
	Tool     string
	Problems []string // at most five
}

func (e *InvalidInputError) Error() string {
	if len(e.Problems) == 1 {
		return fmt.Sprintf("invalid input for %s: %s", e.Tool, e.Problems[0])
	}
	return fmt.Sprintf("invalid input for %s:\n- %s", e.Tool, strings.Join(e.Problems, "\n- "))
}

// Validate checks an input against the tool's schema on behalf of an owner. The error is an *InvalidInputError, or the
// context's if it ends first. A tool without a usable schema takes everything; SchemaProblem says why. The schema is
// compiled at the first call. Work is estimated first: too much of it is refused, and an expensive check waits for the
// owner's slot.
func (c *Catalog) Validate(ctx context.Context, owner string, t *Tool, input json.RawMessage) error {
	v := t.validator()
	if v.compiled == nil {
		return nil
	}
	problems, err := v.check(ctx, input, func() (func(), error) { return c.checks.acquire(ctx, owner) })
	if err != nil {
		return fmt.Errorf("validate input of %s: %w", t.FullName(), err)
	}
	if len(problems) == 0 {
		return nil
	}
	return &InvalidInputError{Tool: t.FullName(), Problems: problems}
}

// SchemaProblem says why input is not, or not fully, checked before a call; empty if it is.
func (t *Tool) SchemaProblem() string { return t.validator().broken }

func (t *Tool) validator() *validator { return t.get().validator() }

// Bounds of schemas and inputs that are checked at all.
const (
	maxSchemaValues = 20_000
	maxExponent     = 400 // of a number; a double has 308
	// The server checks an input of more values than this: each may have an error, and the library collects them all.
	maxInputValues = 200_000
)

// validator is a compiled input schema. It is safe for concurrent use.
type validator struct {
	root         *schema.Value
	compiled     *jsonschema.Schema
	broken       string
	instructions int // of the patterns of the schema
}

func newValidator(raw json.RawMessage) (v *validator) {
	v = &validator{}
	defer func() {
		// A schema is foreign input to the compiler; whatever it trips over, the tool stays usable.
		if r := recover(); r != nil {
			v.compiled, v.broken = nil, fmt.Sprintf("the input schema cannot be compiled: %v", r)
		}
	}()
	if len(bytes.TrimSpace(raw)) == 0 {
		return v
	}
	root, err := schema.Parse(raw)
	if err != nil {
		v.broken = fmt.Sprintf("the input schema is not usable: %v", err)
		return v
	}
	if root.Count(maxSchemaValues) > maxSchemaValues {
		v.broken = fmt.Sprintf("the input schema has more than %d values and is not checked", maxSchemaValues)
		return v
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		v.broken = fmt.Sprintf("the input schema is not JSON: %v", err)
		return v
	}
	if _, ok := count(doc); !ok {
		v.broken = "the input schema has a number that is out of range and is not checked"
		return v
	}
	v.root = root
	if err := v.compile(doc); err != nil {
		v.broken = "the input schema is not usable, input is not checked: " + clip(strings.Join(strings.Fields(err.Error()), " "), 300)
	}
	return v
}

// schemaURL is the address of the schema inside the compiler; nothing is ever loaded.
const schemaURL = "mem:///input"

func (v *validator) compile(doc any) error {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(refuse{})
	c.UseRegexpEngine(v.pattern)
	if err := c.AddResource(schemaURL, doc); err != nil {
		return err
	}
	compiled, err := c.Compile(schemaURL)
	if err != nil {
		return err
	}
	v.compiled = compiled
	return nil
}

// refuse loads nothing: a schema from a server must not make this process read files or the network.
type refuse struct{}

func (refuse) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

// check is what does not fit, in words; none if all is well. admit waits for a slot for an expensive check. When ctx
// ends, an expensive check goes on in its slot until it ends by itself, within about maxWork.
func (v *validator) check(ctx context.Context, input json.RawMessage, admit func() (func(), error)) ([]string, error) {
	if exceeds(input, maxInputValues) {
		return nil, nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	if err != nil {
		return []string{"the input is not valid JSON"}, nil
	}
	if _, ok := count(value); !ok {
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

// problems validates and puts into words what does not fit.
func (v *validator) problems(value any) (problems []string) {
	defer func() {
		// A schema is foreign input to the library, whatever it trips over.
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

// exceeds reports whether a JSON document has more than about limit values. Decoding it to learn that would cost many
// times its size.
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

// count is the number of values in value. It is false if a number is not of a size that makes arithmetic on it cheap:
// 1e999999 is short as text only.
func count(value any) (n int, ok bool) {
	n, ok = 1, true
	add := func(item any) {
		more, fine := count(item)
		n, ok = n+more, ok && fine
	}
	switch value := value.(type) {
	case json.Number:
		ok = isPlain(value.String())
	case []any:
		for _, item := range value {
			add(item)
		}
	case map[string]any:
		for _, item := range value {
			add(item)
		}
	}
	return n, ok
}

func isPlain(number string) bool {
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		exponent, err := strconv.Atoi(number[i+1:])
		return err == nil && len(number) < maxExponent && exponent < maxExponent && exponent > -maxExponent
	}
	return len(number) < maxExponent
}
