package worker

import (
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
)

// pageSize is the size in bytes of a WebAssembly page.
const pageSize = 64 << 10

// limiter limits the size of a linear memory. limit may change while the guest runs. refused reports that a growth of the memory was refused since
// the run began. refused distinguishes a guest that ran out of memory from a guest that only claims so.
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

// heapMemory is a linear memory on Go's heap. Building a snapshot always uses a heapMemory; runs use one on systems without a copy-on-write
// mapping.
type heapMemory struct {
	limit *limiter
	image []byte
	data  []extent // parts of image that are not zero
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
		// Doubling keeps the total copying linear in the size that the guest allocates.
		grown := make([]byte, size, min(max(size, 2*uint64(cap(m.buf))), uint64(max(m.limit.limit.Load(), int64(size)))))
		copy(grown, m.buf)
		m.buf = grown
	}
	m.buf = m.buf[:size]
	return m.buf
}

func (m *heapMemory) Free() { m.buf = nil }

// allocator returns an allocator that calls make for the memory of each instance.
func allocator(make func() experimental.LinearMemory) experimental.MemoryAllocator {
	return experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return make() })
}
