package wiring_test

import (
	"errors"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/task"
	"mcp-code-exec-harness/internal/wiring"
)

// TestModelsOfRequests: a request may name the configured model or a model of model.allow. A budget of money is accepted only if the model's price is known.
func TestModelsOfRequests(t *testing.T) {
	t.Parallel()
	f := setup(t, map[string]string{
		"model.provider": "compatible", "model.baseUrl": "http://127.0.0.1:1/v1", "model.name": "small", "model.allow": "large, huge",
		"model.prices": `{large: {input: 1, output: 2}}`,
	})
	tasks, err := f.Tasks(wiring.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		model   string
		cost    float64
		problem string
	}{
		{"", 0, ""},
		{"small", 0, ""},
		{"large", 0.5, ""},
		{"other", 0, "model is not one that requests may name: small, large, huge (model.name, model.allow)"},
		{"", 0.5, "the price of compatible/small is not known"},
		{"huge", 0.5, "the price of compatible/huge is not known"},
	} {
		_, _, err := tasks.Submit(t.Context(), task.Request{UserID: "u", Task: "go", Model: c.model, Budget: task.Budget{Cost: c.cost}})
		if c.problem == "" && err != nil || c.problem != "" && (!errors.Is(err, task.ErrInvalidInput) || !strings.Contains(err.Error(), c.problem)) {
			t.Errorf("model %q for $%g: %v", c.model, c.cost, err)
		}
	}
}
