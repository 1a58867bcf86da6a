package model_test

import (
	"maps"
	"math"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/model"
)

func TestCost(t *testing.T) {
	t.Parallel()
	prices := model.KnownPrices()
	maps.Copy(prices, model.Prices{
		"azure/*":                  {Input: 1, Output: 2},
		"azure/our-gpt*":           {Input: 3, Output: 4},
		"azure/our-gpt-big":        {Input: 5, Output: 6},
		"anthropic/claude-opus-5":  {Input: 50, CachedInput: 5, CacheWrite: 60, Output: 100},
		"compatible/local-model:7": {},
		"openai/gpt-5.2":           {Input: 1.75, CachedInput: 0.175, Output: 14},
		"openai/gpt-5-mini":        {Input: 0.25, CachedInput: 0.025, Output: 2},
	})
	million := model.Usage{Input: 1_000_000}
	for _, c := range []struct {
		provider, model string
		usage           model.Usage
		want            float64
		unknown         bool
	}{
		{"anthropic", "claude-sonnet-4-5-20250929", model.Usage{Input: 1_000_000, CachedInput: 600_000, CacheWrite: 300_000, Output: 10_000}, 0.1*3 + 0.6*0.3 + 0.3*3.75 + 0.01*15, false},
		{"openai", "gpt-5-mini-2025-08-07", model.Usage{Input: 1_000_000, CachedInput: 400_000, CacheWrite: 100_000, Output: 1_000_000}, 0.6*0.25 + 0.4*0.025 + 2, false},
		{"openai", "gpt-5.2", million, 1.75, false},
		{"openai", "gpt-5.2-pro", million, 0, true},
		{"openai", "gpt-5", million, 0, true},
		{"anthropic", "claude-opus-5-9", million, 0, true},
		{"anthropic", "claude-opus-5", million, 50, false},
		{"anthropic", "claude-opus-5-5", million, 4, false},
		{"google", "gemini", million, 0, true},
		{"azure", "anything", million, 1, false},
		{"azure", "our-gpt-small", million, 3, false},
		{"azure", "our-gpt-big", million, 5, false},
		{"compatible", "local-model:7", million, 0, false},
	} {
		got, known := prices.Cost(c.provider, c.model, c.usage)
		if known == c.unknown || math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s/%s: %v, known %v; want %v", c.provider, c.model, got, known, c.want)
		}
	}
	if usd, known := model.Prices(nil).Cost("openai", "gpt-5.2", million); known || usd != 0 {
		t.Errorf("no prices: %v, %v", usd, known)
	}
}

func TestEstimate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "hello world": 2, "return 1 + 1": 6} {
		if got := model.Estimate(text); got != want {
			t.Errorf("%q: %d tokens, want %d", text, got, want)
		}
	}
	long := strings.Repeat("é word ", 10_000)
	if got := model.Estimate(long); got < 15_000 || got > 45_000 {
		t.Errorf("a text of 20,000 words: %d tokens", got)
	}
	if got := model.Estimate(strings.Repeat("\xff", 40_000)); got < 1_000 {
		t.Errorf("40 kB that are no text: %d tokens", got)
	}
}

func TestUsageAdd(t *testing.T) {
	t.Parallel()
	got := model.Usage{Input: 1, CachedInput: 2, CacheWrite: 3, Output: 4, Reasoning: 5}.Add(model.Usage{Input: 10, CachedInput: 20, CacheWrite: 30, Output: 40, Reasoning: 50})
	if got != (model.Usage{Input: 11, CachedInput: 22, CacheWrite: 33, Output: 44, Reasoning: 55}) {
		t.Errorf("sum %+v", got)
	}
}
