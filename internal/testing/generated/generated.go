// Package generated contains what tests with generated cases share: the seed, which is logged before the first case, and
// the length of a series.
package generated

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Seed returns the seed of a test's series and logs it. It is HARNESS_TEST_SEED if that is set, or the time if [Long] is true, or else always
// the same, so that no commit passes or fails by luck.
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

// Long reports whether series are tested in full, as in make test-long.
func Long() bool { return os.Getenv("HARNESS_TEST_LONG") != "" }

// Count returns the number of cases in a series: whole if [Long] is true, or else short.
func Count(short, whole int) int {
	if Long() {
		return whole
	}
	return short
}
