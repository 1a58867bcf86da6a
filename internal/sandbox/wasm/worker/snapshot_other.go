//go:build !linux

package worker

import (
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero/experimental"
)

// openSnapshot reads the snapshot; every instance gets a copy.
func openSnapshot(s Settings, limit *limiter) (header, func() (experimental.LinearMemory, error), error) {
	data, err := os.ReadFile(filepath.Join(s.Dir, snapshotFile))
	if err != nil {
		return header{}, nil, err
	}
	h, err := decodeHeader(data[:min(len(data), pageSize)], int64(len(data)))
	if err != nil {
		return header{}, nil, err
	}
	return h, func() (experimental.LinearMemory, error) {
		return &heapMemory{limit: limit, image: data[pageSize:], data: h.Data}, nil
	}, nil
}

// ShareSnapshot returns nil, because workers read the snapshot file themselves.
func ShareSnapshot(string) (*os.File, error) { return nil, nil }
