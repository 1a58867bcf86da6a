package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

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

// Validate checks an input against the tool's schema; the error is an *InvalidInputError. A tool without a usable
// schema takes everything; SchemaProblem says why. The schema is compiled at the first call.
func (t *Tool) Validate(input json.RawMessage) error {
	v := t.validator()
	if v.compiled == nil {
		return nil
	}
	problems := v.problems(input)
	if len(problems) == 0 {
		return nil
	}
	return &InvalidInputError{Tool: t.FullName(), Problems: problems}
}

// SchemaProblem says why input is not, or not fully, checked before a call; empty if it is.
func (t *Tool) SchemaProblem() string { return t.validator().broken }

func (t *Tool) validator() *validator {
	if t.kept != nil {
		return t.kept.validator()
	}
	return newValidator(t.InputSchema)
}

// What validation may cost. A schema can make its validation exponential in the depth of the input, and the input
// comes from guest code, so the work is counted and ended.
const (
	maxSchemaValues = 20_000
	freeSteps       = 20_000    // schemas applied to values, whatever the input
	stepsPerValue   = 50        // and for each value of the input
	maxSteps        = 5_000_000 // but no more, some seconds
	maxExponent     = 400       // of a number; a double has 308
	// An input of more values than this is left to the server to check: each may have an error, and the library
	// collects them all.
	maxInputValues = 200_000
)

// validator is a compiled input schema.
type validator struct {
	root     *schema.Value
	compiled *jsonschema.Schema
	broken   string

	instructions int // of the patterns of the schema, or of an input that holds some

	// The step counter is part of the compiled schema, so one validation runs at a time.
	mu    sync.Mutex
	steps steps
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
		v.broken = "the input schema is not usable, input is not checked: " + oneLine(err)
	}
	return v
}

// schemaURL is the address of the schema inside the compiler; nothing is ever loaded.
const schemaURL = "mem:///input"

func (v *validator) compile(doc any) error {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.AssertVocabs()
	c.UseLoader(refuse{})
	c.UseRegexpEngine(v.pattern)
	c.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "mem:///steps",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) {
			return &v.steps, nil
		},
	})
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

// steps is a keyword that every schema has: it counts how often a schema is applied.
type steps struct{ left int }

// errTooManySteps is thrown through the library, which has no other way to be stopped.
var errTooManySteps = errors.New("too many steps")

func (s *steps) Validate(*jsonschema.ValidatorContext, any) {
	s.left--
	if s.left < 0 {
		panic(errTooManySteps)
	}
}

// problems is what does not fit, in words; none if all is well.
func (v *validator) problems(input json.RawMessage) (problems []string) {
	if exceeds(input, maxInputValues) {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	if err != nil {
		return []string{"the input is not valid JSON"}
	}
	values, ok := count(value)
	if !ok {
		return []string{"the input has a number that is out of range"}
	}
	defer func() {
		if r := recover(); r != nil {
			problems = []string{"the input is too complex to be checked against the schema; nest it less deeply"}
		}
	}()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.steps.left, v.instructions = min(freeSteps+stepsPerValue*values, maxSteps), 0
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

func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "..."
	}
	return text
}
