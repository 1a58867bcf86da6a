package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// image is the memory image that every instance starts from, and the mapping that instances use one after another.
type image struct {
	file    *os.File // file with the image at offset
	offset  int64
	shared  []byte   // read-only mapping of the image
	hot     []extent // parts that every program writes to
	reserve int64    // bytes of address space of a linear memory
	limit   *limiter
	pagemap *os.File      // page map of this process; nil if the system has none
	entries []byte        // buffer for the page map entries of an instance
	free    *mappedMemory // mapping of the last instance
}

func mapImage(file *os.File, offset, size, reserve int64, hot []extent, limit *limiter) (*image, error) {
	i := &image{file: file, offset: offset, hot: hot, reserve: reserve, limit: limit}
	var err error
	if i.shared, err = unix.Mmap(int(file.Fd()), offset, int(size), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map the snapshot: %w", err)
	}
	i.pagemap, _ = os.Open("/proc/self/pagemap") // if the page map is absent, every instance gets a new mapping
	return i, nil
}

// memory returns a linear memory that holds the image. It reuses the memory of the last instance if that can be restored.
func (i *image) memory() (experimental.LinearMemory, error) {
	m := i.free
	i.free = nil
	if m != nil {
		if i.restore(m) == nil {
			return m, nil
		}
		unix.Munmap(m.reserved)
	}
	return i.reserveMemory()
}

// reserveMemory reserves address space and maps the image copy-on-write over its beginning. It copies the hot parts at once, because
// a page fault in a running program costs a microsecond or two.
func (i *image) reserveMemory() (*mappedMemory, error) {
	reserved, err := unix.Mmap(-1, 0, int(i.reserve), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of guest memory: %w", i.reserve, err)
	}
	size := uintptr(len(i.shared))
	if _, err := unix.MmapPtr(int(i.file.Fd()), i.offset, unsafe.Pointer(unsafe.SliceData(reserved)), size,
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED); err != nil {
		unix.Munmap(reserved)
		return nil, fmt.Errorf("map the snapshot: %w", err)
	}
	// Kernels before 5.14 do not support this; then the pages are copied when the guest writes to them.
	for _, e := range i.hot {
		unix.Madvise(reserved[e.From:e.To], unix.MADV_POPULATE_WRITE)
	}
	return &mappedMemory{image: i, reserved: reserved, size: uint64(size)}, nil
}

// Bits of an entry of /proc/pid/pagemap; see the kernel's admin-guide/mm/pagemap.
const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
	pageOfFile  = 1 << 61
)

// restore makes a memory equal to the image. The pages of the image that the guest has written are private, and restore copies them back: copying
// takes a third of the processor time of a new mapping and its page faults. The pages that the guest added after the image go back to the system.
// restore fails on a system that does not report private pages.
func (i *image) restore(m *mappedMemory) error {
	if i.pagemap == nil || len(i.hot) == 0 {
		return errors.ErrUnsupported
	}
	system := os.Getpagesize()
	if i.entries == nil {
		i.entries = make([]byte, len(i.shared)/system*8)
	}
	entries := i.entries
	base := unsafe.Pointer(unsafe.SliceData(m.reserved))
	if _, err := i.pagemap.ReadAt(entries, int64(uintptr(base)/uintptr(system)*8)); err != nil {
		return err
	}
	private := func(page int) bool {
		entry := binary.NativeEndian.Uint64(entries[page*8:])
		return entry&(pagePresent|pageSwapped) != 0 && entry&pageOfFile == 0
	}
	for _, e := range i.hot { // hot pages are always private, so this checks that the system reports private pages
		if !private(int(e.From) / system) {
			return errors.ErrUnsupported
		}
	}
	if added := m.size - uint64(len(i.shared)); added > 0 {
		if _, err := unix.MmapPtr(-1, 0, unsafe.Add(base, len(i.shared)), uintptr(added), unix.PROT_NONE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED); err != nil {
			return err
		}
		m.size = uint64(len(i.shared))
	}
	for page := range len(entries) / 8 {
		if private(page) {
			copy(m.reserved[page*system:(page+1)*system], i.shared[page*system:])
		}
	}
	return nil
}

// mappedMemory is a linear memory over a private mapping of the image: pages are shared with every other worker until
// the guest writes to them.
type mappedMemory struct {
	image    *image
	reserved []byte // whole reservation, PROT_NONE after size
	size     uint64 // bytes that the guest may touch
}

func (m *mappedMemory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.reserved)) || !m.image.limit.allow(size) {
		m.image.limit.refused.Store(true)
		return nil
	}
	if size > m.size {
		if err := unix.Mprotect(m.reserved[m.size:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			m.image.limit.refused.Store(true)
			return nil
		}
		m.size = size
	}
	return m.reserved[:size:size]
}

// Free keeps the memory for the next instance.
func (m *mappedMemory) Free() {
	m.image.free = m
}

const (
	sealTries = 40
	sealPause = 50 * time.Millisecond
)

// sealed copies data into an anonymous file that no process can change or resize.
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
		time.Sleep(sealPause) // the kernel holds a reference to a page for a short time, and does not signal when it drops the reference
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("seal a memory file: %w", err)
	}
	return file, nil
}
