// Package generated is what tests with generated cases share: the seed, which the log shows before the first case, and how
// long a series is.
package generated

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Seed returns where the series of a test begins and logs it: HARNESS_TEST_SEED if that is set, the time if series are tested whole, and else
// always the same, so that a commit does not pass or fail by luck.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(1)
	if Long() {
		seed = uint64(time.Now().UnixNano())
	}
	if text := os.Getenv("HARNESS_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("HARNESS_TEST_SEED: %v", err)
		}
	}
	t.Logf("the seed is %d; repeat the series with HARNESS_TEST_SEED=%d", seed, seed)
	return seed
}

// Long reports that series are tested whole, as make test-long does.
func Long() bool { return os.Getenv("HARNESS_TEST_LONG") != "" }

// Count is how many cases a series has: whole if [Long], else short.
func Count(short, whole int) int {
	if Long() {
		return whole
	}
	return short
}
