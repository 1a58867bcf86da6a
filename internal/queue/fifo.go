package queue

import "slices"

// fifo is a first-in, first-out list.
type fifo[T comparable] struct {
	items []T
	head  int // the items before it are taken
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(x T) { f.items = append(f.items, x) }

func (f *fifo[T]) pop() (x T, ok bool) {
	if f.len() == 0 {
		return x, false
	}
	var none T
	x, f.items[f.head] = f.items[f.head], none
	f.head++
	switch {
	case f.head == len(f.items):
		f.items, f.head = f.items[:0], 0
	case f.head > 32 && f.head > len(f.items)/2: // so that a list which is never empty does not grow
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	return x, true
}

// unpop puts an item before all others.
func (f *fifo[T]) unpop(x T) {
	if f.head > 0 {
		f.head--
		f.items[f.head] = x
		return
	}
	f.items = slices.Insert(f.items, 0, x)
}

// remove takes an item out, wherever it is.
func (f *fifo[T]) remove(x T) {
	if i := slices.Index(f.items[f.head:], x); i >= 0 {
		f.items = slices.Delete(f.items, f.head+i, f.head+i+1)
	}
}
