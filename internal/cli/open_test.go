package cli

import (
	"io"
	"testing"
	"time"
)

// TestOneHarness checks that a command opens only one harness. A second one would not be closed, and would go on reviewing definitions of servers.
func TestOneHarness(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := &app{
		World: World{Environ: []string{"HOME=" + dir, "HARNESS_CACHE_DIR=" + dir}, Dir: dir, Stdout: io.Discard, Stderr: io.Discard, Now: time.Now},
		flags: &globals{}, stdout: &console{raw: io.Discard, screen: &screen{}}, stderr: &console{raw: io.Discard, screen: &screen{}},
	}
	defer a.close()
	first, err := a.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := a.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Error("the second call opens another harness")
	}
}
