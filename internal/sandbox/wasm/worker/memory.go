package worker

import (
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
)

// pageSize is a WebAssembly page.
const pageSize = 64 << 10

// limiter caps a linear memory. limit may change while the guest runs; refused says that growing was denied since the
// run began, which distinguishes running out of memory from a guest that only says so.
type limiter struct {
	limit   atomic.Int64
	refused atomic.Bool
}

func (l *limiter) allow(size uint64) bool {
	if int64(size) <= l.limit.Load() {
		return true
	}
	l.refused.Store(true)
	return false
}

// heapMemory is a linear memory on Go's heap. It backs the build of a snapshot everywhere, and runs where no
// copy-on-write mapping is available.
type heapMemory struct {
	limit *limiter
	image []byte
	data  []extent // the parts of image that are not zero
	buf   []byte
}

func (m *heapMemory) Reallocate(size uint64) []byte {
	if !m.limit.allow(size) {
		return nil
	}
	if m.buf == nil {
		m.buf = make([]byte, max(size, uint64(len(m.image))))
		for _, e := range m.data {
			copy(m.buf[e.From:e.To], m.image[e.From:])
		}
	}
	if uint64(cap(m.buf)) < size {
		// Doubling keeps the copying linear in what the guest allocates.
		grown := make([]byte, size, min(max(size, 2*uint64(cap(m.buf))), uint64(max(m.limit.limit.Load(), int64(size)))))
		copy(grown, m.buf)
		m.buf = grown
	}
	m.buf = m.buf[:size]
	return m.buf
}

func (m *heapMemory) Free() { m.buf = nil }

// allocator makes the memory of each instance.
func allocator(make func() experimental.LinearMemory) experimental.MemoryAllocator {
	return experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return make() })
}
