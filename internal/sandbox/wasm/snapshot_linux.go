package wasm

import (
	"os"

	"github.com/tetratelabs/wazero/experimental"
)

// snapshotFD is the descriptor on which a worker finds the sealed snapshot.
const snapshotFD = 3

// openSnapshot maps the sealed snapshot copy-on-write.
func openSnapshot(s settings, limit *limiter) (header, func() (experimental.LinearMemory, error), error) {
	return openImage(os.NewFile(snapshotFD, "snapshot"), s, limit)
}

func openImage(file *os.File, s settings, limit *limiter) (header, func() (experimental.LinearMemory, error), error) {
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
	return h, func() (experimental.LinearMemory, error) {
		return mapImage(file, pageSize, h.Size, s.Reserve, h.Hot, limit)
	}, nil
}

// shareSnapshot copies the snapshot into a sealed file that workers inherit: they share its pages, and none of them
// can change what the others see.
func shareSnapshot(path string) (*os.File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if _, err := decodeHeader(data[:min(len(data), pageSize)], int64(len(data))); err != nil {
		return nil, err
	}
	return sealed("harness-snapshot", data)
}
