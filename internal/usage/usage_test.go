package usage

import (
	"testing"
	"time"
)

// TestQuantile: a quantile lies in the bucket of the duration that it estimates.
func TestQuantile(t *testing.T) {
	t.Parallel()
	var none Spans
	if d, ok := none.Quantile(0.5); ok {
		t.Errorf("no span: %s", d)
	}
	for _, c := range []struct {
		spans []time.Duration
		share float64
		from  time.Duration
		to    time.Duration
	}{
		{[]time.Duration{3 * time.Millisecond}, 0.5, 2 * time.Millisecond, 5 * time.Millisecond},
		{[]time.Duration{0, 0, 0, time.Second}, 0.5, 0, time.Millisecond},
		{[]time.Duration{0, 0, 0, time.Second}, 0.99, 500 * time.Millisecond, time.Second},
		{[]time.Duration{24 * time.Hour}, 0.99, 30 * time.Minute, 30 * time.Minute},
	} {
		var s Spans
		for _, d := range c.spans {
			s[Bucket(d)]++
		}
		if got, ok := s.Quantile(c.share); !ok || got < c.from || got > c.to {
			t.Errorf("%g of %v: %s, %t", c.share, c.spans, got, ok)
		}
	}
}

// TestWindow: a window is divided into equal parts, the last of which contains the current time. Slots that are not kept are not read.
func TestWindow(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 3, 4, 12, 34, 56, 0, time.UTC)
	for _, c := range []struct {
		since time.Time
		from  time.Time
		steps int
		slots int
	}{
		{now.Add(-time.Hour), time.Date(2031, 3, 4, 11, 30, 0, 0, time.UTC), 7, 7},
		{time.Time{}, time.Date(2031, 3, 3, 12, 0, 0, 0, time.UTC), 25, 148},
		{now.Add(-7 * Day), time.Date(2031, 2, 25, 0, 0, 0, 0, time.UTC), 8, 8},
		{time.Unix(0, 0), time.Date(2030, 12, 4, 0, 0, 0, 0, time.UTC), 91, 91},
		{now.Add(1000 * Day), time.Date(2031, 3, 4, 12, 30, 0, 0, time.UTC), 1, 1},
	} {
		r := NewReport(Query{Since: c.since}, now)
		if slots := r.Slots(); !r.Since.Equal(c.from) || len(r.steps) != c.steps || len(slots) != c.slots {
			t.Errorf("since %s: from %s, %d steps, %d slots", c.since, r.Since, len(r.steps), len(slots))
		}
	}
}

// TestPrice: a cost that is completely or partly unknown is not shown as zero.
func TestPrice(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]Figures{
		"$0.0000": {}, "$0.2500": {CostUSD: 0.25}, "not known": {Unpriced: 1}, "over $0.2500": {CostUSD: 0.25, Unpriced: 1},
	} {
		if got := f.Price(); got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
}
