// Package child names the program that tests start as child processes: workers, servers, processes that are killed.
package child

import (
	"os"
	"path/filepath"
	"testing"
)

// dirVar names a directory with test binaries that were built without the race detector. Those start in a fraction of the
// time, and what they run is tested with the detector inside of the tests' own process.
const dirVar = "HARNESS_TEST_CHILDREN"

// Executable returns the path of this test's binary without the race detector if HARNESS_TEST_CHILDREN has it, and of
// the running one if not.
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
