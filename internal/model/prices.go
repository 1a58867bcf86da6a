package model

import (
	"cmp"
	"strings"

	"mcp-code-exec-harness/internal/startup"
)

// Price is the price of a model's tokens, in US dollars per million.
type Price struct {
	Input       float64 `json:"input"`       // tokens read, without those read from or written to the cache
	CachedInput float64 `json:"cachedInput"` // tokens read from the cache
	CacheWrite  float64 `json:"cacheWrite"`  // tokens written to the cache; 0 if they cost the same as Input
	Output      float64 `json:"output"`      // tokens written, including reasoning
}

// Prices maps "provider/model" to prices. A key matches the model and its dated versions, such as
// gpt-5-2025-08-07. A key that ends in * matches every model with that prefix.
type Prices map[string]Price

// KnownPrices returns list prices for short requests, with a cache time of five minutes if there is a choice. It
// contains only models whose price we read at their provider; all others must be configured (model.prices). It omits
// models whose price depends on the length of the request, such as Claude Haiku 5.5.
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

// Cost returns the cost of a usage in US dollars, by the longest matching key. If known is false, no key matches and
// the cost is unknown, not zero.
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

// date matches the date at the end of a model's name: -20251001 or -2025-08-07.
var date = startup.Regexp(`^-\d{4}(\d{4}|-\d\d-\d\d)$`)
