package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/disk"
)

const (
	// keepShapesEvery is the minimum interval between writes of what is learned.
	keepShapesEvery = 5 * time.Second
	// maxShapes is the maximum size of the file in bytes.
	maxShapes = 32 << 20
	// shapesVersion is the version of the file. In version 1, the entries did not name the user who got the answers.
	shapesVersion = 2
)

// keptShapes is the content of the file with what is learned from answers.
type keptShapes struct {
	Version int         `json:"version"`
	Tools   []KeptShape `json:"tools"`
}

// ShapeFile keeps in a file what a catalog learns from answers. Its methods are safe for concurrent use.
type ShapeFile struct {
	catalog *Catalog
	file    string
	logger  *slog.Logger
	end     func()
}

// KeepShapes reads from a file what earlier processes learned from the answers of known servers. It writes to the same file what this process learns,
// until Close. A file that cannot be read, and entries that are invalid or name no user, are ignored, so their shapes are learned again. Several
// processes may share one file: a write keeps the entries of the other processes. The limits for one process also apply to the file.
func (c *Catalog) KeepShapes(file string, known func(server string) bool, logger *slog.Logger) *ShapeFile {
	s := &ShapeFile{catalog: c, file: file, logger: logger}
	kept, err := readShapes(file)
	if err != nil {
		logger.Warn("the learned shapes of answers cannot be read; they are learned anew", "error", err)
	}
	c.shapes.restore(slices.DeleteFunc(kept, func(k KeptShape) bool { return !known(k.Server) }))
	changed := c.shapes.changes()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(keepShapesEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				select {
				case <-changed:
					s.write()
				default:
				}
				return
			case <-tick.C:
			}
			select {
			case <-changed:
				s.write()
			default:
			}
		}
	}()
	s.end = sync.OnceFunc(func() { close(end); <-ended })
	return s
}

// Close writes the changes since the last write, and stops writing.
func (s *ShapeFile) Close() { s.end() }

func readShapes(file string) ([]KeptShape, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxShapes+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxShapes {
		return nil, fmt.Errorf("%s is larger than %d bytes", file, maxShapes)
	}
	var kept keptShapes
	if err := json.Unmarshal(raw, &kept); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	switch kept.Version {
	case 1:
		return nil, nil
	case shapesVersion:
		return kept.Tools, nil
	}
	return nil, fmt.Errorf("%s has version %d, not %d", file, kept.Version, shapesVersion)
}

// write adds what is learned to the file.
func (s *ShapeFile) write() {
	if err := disk.Exclusively(s.file, s.merge); err != nil {
		s.logger.Warn("the learned shapes of answers are not kept", "error", err)
	}
}

// merge writes what is learned together with what other processes have written. Of two entries with the same shapeKey it keeps the one with more
// answers.
func (s *ShapeFile) merge() error {
	others, err := readShapes(s.file)
	if err != nil {
		s.logger.Warn("the learned shapes of answers are written anew", "error", err)
	}
	all := s.catalog.shapes.kept()
	at := map[shapeKey]int{}
	for i := range all {
		at[all[i].key()] = i
	}
	for _, other := range others {
		if i, ok := at[other.key()]; !ok {
			all = append(all, other)
		} else if other.Answers > all[i].Answers {
			all[i] = other
		}
	}
	sortShapes(all)
	var bounded shapes
	bounded.restore(all)
	raw, err := json.Marshal(keptShapes{shapesVersion, bounded.kept()})
	if err == nil && len(raw) > maxShapes {
		err = fmt.Errorf("they have more than %d bytes", maxShapes)
	}
	if err != nil {
		return err
	}
	return disk.Replace(s.file, raw, 0o600)
}

// Learn learns the structure of a tool's answer to a user. It logs how the answer differs from earlier ones.
func (s *ShapeFile) Learn(ctx context.Context, user string, tool *Tool, value json.RawMessage) {
	if drift := s.catalog.Learn(user, tool, value); len(drift) > 0 {
		s.logger.InfoContext(ctx, "a tool answered in another shape than before", "tool", tool.FullName(), "differences", drift)
	}
}
