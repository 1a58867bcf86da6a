package worker

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// mappedMemory is a linear memory over a private mapping of the snapshot: pages are shared with every other run until
// the guest writes to them.
type mappedMemory struct {
	limit    *limiter
	reserved []byte // the whole reservation, PROT_NONE past size
	size     uint64 // bytes that the guest may touch
}

// mapImage reserves max bytes of address space and maps the image in file at offset over its beginning. The hot parts
// are copied now: a page fault in a running program costs a microsecond or two.
func mapImage(file *os.File, offset, size, max int64, hot []extent, limit *limiter) (experimental.LinearMemory, error) {
	reserved, err := unix.Mmap(-1, 0, int(max), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of guest memory: %w", max, err)
	}
	base := unsafe.Pointer(unsafe.SliceData(reserved))
	if _, err := unix.MmapPtr(int(file.Fd()), offset, base, uintptr(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_FIXED); err != nil {
		unix.Munmap(reserved)
		return nil, fmt.Errorf("map the snapshot: %w", err)
	}
	// Kernels before 5.14 do not know this: then the pages come when they are touched.
	for _, e := range hot {
		unix.Madvise(reserved[e.From:e.To], unix.MADV_POPULATE_WRITE)
	}
	return &mappedMemory{limit: limit, reserved: reserved, size: uint64(size)}, nil
}

func (m *mappedMemory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.reserved)) || !m.limit.allow(size) {
		m.limit.refused.Store(true)
		return nil
	}
	if size > m.size {
		if err := unix.Mprotect(m.reserved[m.size:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			m.limit.refused.Store(true)
			return nil
		}
		m.size = size
	}
	return m.reserved[:size:size]
}

func (m *mappedMemory) Free() {
	if m.reserved != nil {
		unix.Munmap(m.reserved)
		m.reserved = nil
	}
}

const (
	sealTries = 40
	sealPause = 50 * time.Millisecond
)

// sealed copies data into an anonymous file that nobody can change or resize any more.
func sealed(name string, data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("create a memory file: %w", err)
	}
	file := os.NewFile(uintptr(fd), name)
	if _, err := file.Write(data); err != nil {
		file.Close()
		return nil, fmt.Errorf("fill a memory file: %w", err)
	}
	seals := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	for try := 0; errors.Is(err, unix.EBUSY) && try < sealTries; try++ {
		time.Sleep(sealPause) // the kernel holds a page for a moment, and says no more of it
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("seal a memory file: %w", err)
	}
	return file, nil
}
