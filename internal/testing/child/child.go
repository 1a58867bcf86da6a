// Package child finds the program that tests start as child processes: workers, servers, processes that are killed.
package child

import (
	"os"
	"path/filepath"
	"testing"
)

// dirVar names a directory with test binaries built without the race detector. They start in a fraction of the
// time; tests that run in the test process itself test the same code with the detector.
const dirVar = "HARNESS_TEST_CHILDREN"

// Executable returns the path of this test's binary without the race detector if HARNESS_TEST_CHILDREN contains one, and the path of
// the running binary otherwise.
func Executable(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv(dirVar); dir != "" {
		plain := filepath.Join(dir, filepath.Base(self))
		if _, err := os.Stat(plain); err == nil {
			return plain
		}
	}
	return self
}
