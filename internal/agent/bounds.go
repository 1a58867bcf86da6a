package agent

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/task"
)

// bounds are the limits of a task. Each is the lower of two values: the configured one and the requested one.
type bounds struct {
	turns, runs, tokens bound[int]
	cost                bound[float64]
	wall                bound[time.Duration]
}

// bound is a maximum, with the name of the setting or request field that set it. A maximum of 0 means no limit.
type bound[T int | float64 | time.Duration] struct {
	most T
	key  string
}

func boundsOf(configured, asked task.Budget) bounds {
	return bounds{
		turns:  lower(configured.Turns, asked.Turns, "model.maxTurns", "budget.turns, --max-turns"),
		runs:   lower(configured.Runs, asked.Runs, "model.maxRuns", "budget.runs"),
		tokens: lower(configured.Tokens, asked.Tokens, "model.maxTaskTokens", "budget.tokens"),
		cost:   lower(configured.Cost, asked.Cost, "model.maxCost", "budget.costUsd, --max-cost"),
		wall:   lower(time.Duration(configured.Wall), time.Duration(asked.Wall), "model.maxTaskTime", "the request"),
	}
}

// lower returns the lower of two bounds.
func lower[T int | float64 | time.Duration](configured, asked T, configKey, requestKey string) bound[T] {
	if asked > 0 && (configured <= 0 || asked < configured) {
		return bound[T]{asked, requestKey}
	}
	return bound[T]{max(configured, 0), configKey}
}

// reachedBy returns "" if n is below the bound. If n has reached the bound, it returns words followed by the key of the bound.
func (b bound[T]) reachedBy(n T, words string) string {
	if b.most <= 0 || n < b.most {
		return ""
	}
	return fmt.Sprintf("%s (%s)", words, b.key)
}

// reached names a bound that the task has reached, so that it gets no further turn; "" if there is none.
func (b *bounds) reached(s *state) string {
	return cmp.Or(
		b.turns.reachedBy(s.asks, count(b.turns.most, "turn")),
		b.tokens.reachedBy(s.tokens.Input+s.tokens.Output, count(b.tokens.most, "model token")),
		b.cost.reachedBy(s.cost, fmt.Sprintf("$%.4g", b.cost.most)),
	)
}

// unpriced returns the message that a cost budget cannot be enforced, because the price of the model is not known.
func (a *Agent) unpriced(m model.Info, cost bound[float64]) string {
	name := m.Provider + "/" + m.Name
	return fmt.Sprintf("The budget of $%.4g (%s) cannot be kept because the price of %s is not known: set model.prices for %q, or remove the budget.",
		cost.most, cost.key, name, name)
}

// Admit returns an error if the model of a request cannot be used, or if the request has a cost budget and the price of the model is not
// known. Admit does not report that no model is configured; Do reports that.
func (a *Agent) Admit(name string, budget task.Budget) error {
	cost := boundsOf(a.opt.Budget, budget).cost
	if name == "" && cost.most <= 0 {
		return nil
	}
	m, err := a.opt.Models(name)
	switch {
	case err != nil && name == "":
		return nil
	case err != nil:
		return err
	}
	info := m.Info()
	if _, known := a.opt.Prices.Cost(info.Provider, info.Name, model.Usage{}); cost.most > 0 && !known {
		return errors.New(a.unpriced(info, cost))
	}
	return nil
}

// count returns a number of things in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
