package model

import (
	"cmp"
	"strings"

	"mcp-code-exec-harness/internal/startup"
)

// Price is what a model's tokens cost, in US dollars per million.
type Price struct {
	Input       float64 `json:"input"`       // read, and neither cached nor written to the cache
	CachedInput float64 `json:"cachedInput"` // read from the cache
	CacheWrite  float64 `json:"cacheWrite"`  // written to the cache; 0 where that costs no more than Input
	Output      float64 `json:"output"`      // written, with reasoning
}

// Prices says what models cost, by "provider/model". A key stands for that model and its dated versions, as in
// gpt-5-2025-08-07; one that ends in * for every model that begins so.
type Prices map[string]Price

// KnownPrices are list prices for short requests, cached for five minutes where that is a choice. They are those of the
// models whose price we read at its provider's; all others have to be configured (model.prices). Left out on purpose:
// models whose price depends on the length of the request, as that of Claude Haiku 5.5 does.
//
// Source: https://platform.claude.com/docs/en/about-claude/pricing, 2026-10-24.
func KnownPrices() Prices {
	return Prices{
		"anthropic/claude-fable-5-1":  {Input: 10, CachedInput: 0.25, CacheWrite: 12.5, Output: 50},
		"anthropic/claude-fable-5":    {Input: 10, CachedInput: 1, CacheWrite: 12.5, Output: 50},
		"anthropic/claude-opus-5-5":   {Input: 4, CachedInput: 0.2, CacheWrite: 5, Output: 20},
		"anthropic/claude-opus-5":     {Input: 5, CachedInput: 0.5, CacheWrite: 6.25, Output: 25},
		"anthropic/claude-opus-4-8":   {Input: 5, CachedInput: 0.5, CacheWrite: 6.25, Output: 25},
		"anthropic/claude-opus-4-7":   {Input: 5, CachedInput: 0.5, CacheWrite: 6.25, Output: 25},
		"anthropic/claude-opus-4-6":   {Input: 5, CachedInput: 0.5, CacheWrite: 6.25, Output: 25},
		"anthropic/claude-opus-4-5":   {Input: 5, CachedInput: 0.5, CacheWrite: 6.25, Output: 25},
		"anthropic/claude-sonnet-5-5": {Input: 2, CachedInput: 0.1, CacheWrite: 2.5, Output: 10},
		"anthropic/claude-sonnet-5":   {Input: 2, CachedInput: 0.2, CacheWrite: 2.5, Output: 10},
		"anthropic/claude-sonnet-4-6": {Input: 3, CachedInput: 0.3, CacheWrite: 3.75, Output: 15},
		"anthropic/claude-sonnet-4-5": {Input: 3, CachedInput: 0.3, CacheWrite: 3.75, Output: 15},
		"anthropic/claude-haiku-4-5":  {Input: 1, CachedInput: 0.1, CacheWrite: 1.25, Output: 5},
	}
}

// Cost is what a usage costs in US dollars, by the longest key that matches. known is false if none does: the cost is
// then unknown, not nothing.
func (p Prices) Cost(provider, model string, u Usage) (usd float64, known bool) {
	name := provider + "/" + model
	best := ""
	for key := range p {
		if matches(key, name) && len(key) > len(best) {
			best = key
		}
	}
	if best == "" {
		return 0, false
	}
	price := p[best]
	price.CacheWrite = cmp.Or(price.CacheWrite, price.Input)
	usd = float64(u.Input-u.CachedInput-u.CacheWrite)*price.Input +
		float64(u.CachedInput)*price.CachedInput + float64(u.CacheWrite)*price.CacheWrite + float64(u.Output)*price.Output
	return usd / 1e6, true
}

func matches(key, name string) bool {
	if prefix, ok := strings.CutSuffix(key, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	rest, ok := strings.CutPrefix(name, key)
	return ok && (rest == "" || date().MatchString(rest))
}

// date is the end of a model's name that has a date: -20251001 or -2025-08-07.
var date = startup.Regexp(`^-\d{4}(\d{4}|-\d\d-\d\d)$`)
