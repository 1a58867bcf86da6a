package worker

import (
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero/experimental"
)

// snapshotFD is the descriptor of the sealed snapshot in a worker.
const snapshotFD = 3

// openSnapshot maps the sealed snapshot copy-on-write.
func openSnapshot(s Settings, limit *limiter) (header, func() (experimental.LinearMemory, error), error) {
	return openImage(os.NewFile(snapshotFD, "snapshot"), s, limit)
}

func openImage(file *os.File, s Settings, limit *limiter) (header, func() (experimental.LinearMemory, error), error) {
	info, err := file.Stat()
	if err != nil {
		return header{}, nil, err
	}
	page := make([]byte, pageSize)
	if _, err := file.ReadAt(page, 0); err != nil {
		return header{}, nil, err
	}
	h, err := decodeHeader(page, info.Size())
	if err != nil {
		return header{}, nil, err
	}
	i, err := mapImage(file, pageSize, h.Size, s.Reserve, h.Hot, limit)
	if err != nil {
		return header{}, nil, err
	}
	return h, i.memory, nil
}

// ShareSnapshot copies the snapshot in dir into a sealed file that workers inherit as descriptor 3: workers share the
// pages of the file, and no worker can change what other workers see. On other systems the file is nil.
func ShareSnapshot(dir string) (*os.File, error) {
	data, err := os.ReadFile(filepath.Join(dir, snapshotFile))
	if err != nil {
		return nil, err
	}
	if _, err := decodeHeader(data[:min(len(data), pageSize)], int64(len(data))); err != nil {
		return nil, err
	}
	return sealed("harness-snapshot", data)
}
