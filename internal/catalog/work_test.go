package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"mcp-code-exec-harness/internal/slots"
)

// jsonList returns a JSON array of n copies of an item.
func jsonList(item string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
}

// TestWorkOfValidation: a validation for which the library would need seconds is refused, because the library cannot be stopped.
func TestWorkOfValidation(t *testing.T) {
	t.Parallel()
	numbers := func(n int) string { return "[" + strings.TrimSuffix(repeat("%d,", n), ",") + "]" }
	for name, c := range map[string]struct {
		schema, input string
		refused       bool
	}{
		"enum, many items":     {`{"items":{"enum":` + numbers(199) + `}}`, jsonList("500", 20_000), true},
		"enum of many":         {`{"items":{"enum":` + numbers(19_000) + `}}`, jsonList("50000", 500), true},
		"enum":                 {`{"items":{"enum":` + numbers(199) + `}}`, jsonList("7", 500), false},
		"enum of texts":        {`{"items":{"enum":["a","b","c","d","e"]}}`, jsonList(`"c"`, 20_000), false},
		"enum of objects":      {`{"items":{"enum":` + jsonList(`{"a":{"b":[1,2,3]}}`, 2000) + `}}`, jsonList(`{"a":{"b":[1,2,4]}}`, 100), true},
		"pattern":              {`{"pattern":"` + strings.Repeat(".{1000}|", 10) + `x"}`, `"` + strings.Repeat("a", 100_000) + `"`, true},
		"ordinary pattern":     {`{"pattern":"^[a-z ]*$"}`, `"` + strings.Repeat("a", 1_000_000) + `"`, false},
		"patterns of names":    {`{"patternProperties":{"(a{90}){10}":{}}}`, `{"` + strings.Repeat("a", 100_000) + `":1}`, true},
		"deep":                 {`{"items":{"$ref":"#"},"minItems":2}`, strings.Repeat("[", 9000) + strings.Repeat("]", 9000), true},
		"large numbers":        {`{"items":{"multipleOf":0.01}}`, jsonList("5."+strings.Repeat("3", 390), 100_000), true},
		"equal hashes":         {`{"uniqueItems":true}`, jsonList(`{"a":[]}`, 5000), true},
		"unique numbers":       {`{"uniqueItems":true}`, numbers(10_000), false},
		"missing properties":   {`{"items":{"required":[` + strings.TrimSuffix(repeat(`"p%d",`, 15_000), ",") + `]}}`, jsonList("{}", 1000), true},
		"dependencies":         {`{"items":{"dependentRequired":{"a":[` + strings.TrimSuffix(repeat(`"p%d",`, 15_000), ",") + `]}}}`, jsonList(`{"a":1}`, 1000), true},
		"patterns of an input": {`{"items":{"format":"regex"}}`, jsonList(`"(a{30}){30}"`, 1000), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newValidator(json.RawMessage(c.schema))
			if v.compiled == nil {
				t.Fatal(v.broken)
			}
			admitted := false
			problems, err := v.check(t.Context(), json.RawMessage(c.input), func() (func(), error) {
				admitted = true
				return func() {}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if c.refused {
				if admitted || len(problems) != 1 || !strings.Contains(problems[0], "more than 3000000 units of work") {
					t.Errorf("got %v, admitted: %v", problems, admitted)
				}
			} else if len(problems) > 0 && strings.Contains(problems[0], "units of work") {
				t.Errorf("got %v", problems)
			}
		})
	}
}

// TestDynamicReference: input for a schema with dynamic references is left to the server, because the work of the check cannot be estimated.
func TestDynamicReference(t *testing.T) {
	t.Parallel()
	if got := validate(t, `{"$dynamicAnchor":"n","properties":{"n":{"$dynamicRef":"#n"}},"type":"object"}`, `{"n":1}`); got != nil {
		t.Errorf("got %v", got)
	}
}

// TestValidationSlots: an owner's expensive validations run one after another. Those of another owner and small ones do not wait for them, and a wait ends
// with its context.
func TestValidationSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New()
		c.checks = slots.New(slots.Limits{All: 2, Each: 1}, "inputs", "checked")
		c.SetServer(Server{Name: "s", Tools: []Tool{tool("t", `{"items":{"type":"integer"}}`, "")}})
		tool, err := c.Resolve("s__t")
		if err != nil {
			t.Fatal(err)
		}
		expensive, small := json.RawMessage(jsonList("1", 10_000)), json.RawMessage("[1]")
		release, err := c.checks.Acquire(t.Context(), "a", 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- c.Validate(ctx, "a", tool, expensive) }()
		go func() { second <- c.Validate(t.Context(), "a", tool, expensive) }()
		synctest.Wait()
		if len(first)+len(second) > 0 {
			t.Error("an expensive validation does not wait for one of the same owner")
		}
		if err := c.Validate(t.Context(), "b", tool, expensive); err != nil {
			t.Errorf("another owner: %v", err)
		}
		if err := c.Validate(t.Context(), "a", tool, small); err != nil {
			t.Errorf("a small validation: %v", err)
		}
		gone := errors.New("the caller is gone")
		cancel(gone)
		if err := <-first; !errors.Is(err, gone) {
			t.Errorf("a cancelled wait ends with %v", err)
		}
		release()
		if err := <-second; err != nil {
			t.Errorf("after the slot is free: %v", err)
		}
		if err := c.Validate(ctx, "a", tool, expensive); !errors.Is(err, gone) {
			t.Errorf("with a context that has ended: %v", err)
		}
	})
}
