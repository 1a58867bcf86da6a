//go:build !linux

package wasm

import (
	"os"

	"github.com/tetratelabs/wazero/experimental"
)

// openSnapshot reads the snapshot; every instance gets a copy.
func openSnapshot(s settings, limit *limiter) (header, func() (experimental.LinearMemory, error), error) {
	data, err := os.ReadFile(s.Snapshot)
	if err != nil {
		return header{}, nil, err
	}
	h, err := decodeHeader(data[:min(len(data), pageSize)], int64(len(data)))
	if err != nil {
		return header{}, nil, err
	}
	return h, func() (experimental.LinearMemory, error) {
		return &heapMemory{limit: limit, image: data[pageSize:]}, nil
	}, nil
}

// shareSnapshot has nothing to share: workers read the file.
func shareSnapshot(string) (*os.File, error) { return nil, nil }
