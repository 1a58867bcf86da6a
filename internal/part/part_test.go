package part_test

import (
	"errors"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/part"
)

// After an error the next caller tries again. Concurrent callers share one attempt, and later callers get the opened part.
func TestOnce(t *testing.T) {
	t.Parallel()
	errPassing := errors.New("the disk is full")
	attempts := make(chan func() (int, error))
	get := part.Once(func() (int, error) { return (<-attempts)() })
	var wg sync.WaitGroup
	failed := make(chan error, 1)
	wg.Go(func() {
		_, err := get()
		failed <- err
	})
	attempts <- func() (int, error) { return 0, errPassing }
	if err := <-failed; !errors.Is(err, errPassing) {
		t.Errorf("the first error is %v", err)
	}
	for range 10 {
		wg.Go(func() {
			if part, err := get(); part != 7 || err != nil {
				t.Errorf("got %d, %v", part, err)
			}
		})
	}
	attempts <- func() (int, error) { return 7, nil }
	wg.Wait()
}
