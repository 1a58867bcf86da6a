package queue

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A fifo is a slice, whatever happens to it.
func TestFifo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var f fifo[int]
		var want []int
		next := 0
		for range rapid.IntRange(1, 300).Draw(t, "length") {
			switch rapid.SampledFrom([]string{"push", "push", "pop", "unpop", "remove"}).Draw(t, "what") {
			case "push":
				next++
				f.push(next)
				want = append(want, next)
			case "unpop":
				next++
				f.unpop(next)
				want = slices.Insert(want, 0, next)
			case "pop":
				x, ok := f.pop()
				if ok != (len(want) > 0) || ok && x != want[0] {
					t.Fatalf("pop = %d, %v of %v", x, ok, want)
				}
				want = want[min(1, len(want)):]
			case "remove":
				x := rapid.IntRange(0, next).Draw(t, "which")
				f.remove(x)
				want = slices.DeleteFunc(want, func(y int) bool { return x == y })
			}
			if f.len() != len(want) {
				t.Fatalf("len = %d of %v", f.len(), want)
			}
		}
	})
}

// A list that is never empty does not grow with all that went through it.
func TestFifoForgets(t *testing.T) {
	t.Parallel()
	var f fifo[int]
	f.push(0)
	for i := range 100_000 {
		f.push(i)
		f.pop()
	}
	if n := cap(f.items); n > 1000 {
		t.Errorf("a list of one item holds %d", n)
	}
}
