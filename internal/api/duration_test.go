package api

import (
	"encoding/json"
	"testing"
	"time"
)

// A time span in a request is a number of milliseconds, or text as in the configuration.
func TestDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		`"1d"`: 24 * time.Hour, `"1d12h"`: 36 * time.Hour, `"1m30s"`: 90 * time.Second, `"0"`: 0, `1500`: 1500 * time.Millisecond, `"-1s"`: -1, `"1w"`: -1, `""`: -1, `"30"`: -1, `-1`: -1,
	} {
		var got Duration
		if err := json.Unmarshal([]byte(text), &got); (err != nil) != (want < 0) || err == nil && time.Duration(got) != want {
			t.Errorf("%s is %v, %v", text, time.Duration(got), err)
		}
	}
}
