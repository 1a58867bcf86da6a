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
	"path/filepath"
	"slices"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/disk"
)

const (
	// keepShapesEvery is how often what was learned of answers is written at most.
	keepShapesEvery = 5 * time.Second
	// maxShapes is the size of the file that is read, in bytes.
	maxShapes = 32 << 20
)

// keptShapes is the file of what was learned of answers.
type keptShapes struct {
	Version int         `json:"version"` // 1
	Tools   []KeptShape `json:"tools"`
}

// ShapeFile keeps what a catalog learned of answers. Its methods are safe for concurrent use.
type ShapeFile struct {
	catalog *Catalog
	file    string
	logger  *slog.Logger
	end     func()
}

// KeepShapes reads what earlier processes learned of answers of these servers from a file, and writes there what this one learns until Close.
// What cannot be read is learned again.
func (c *Catalog) KeepShapes(file string, known func(server string) bool, logger *slog.Logger) *ShapeFile {
	s := &ShapeFile{catalog: c, file: file, logger: logger}
	kept, err := readShapes(file)
	if err != nil {
		logger.Warn("the learned shapes of answers cannot be read; they are learned anew", "error", err)
	}
	c.RestoreShapes(slices.DeleteFunc(kept, func(k KeptShape) bool { return !known(k.Server) }))
	changed := c.ShapesChanged()
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

// Close ends the writing, after a last time.
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
	if kept.Version != 1 {
		return nil, fmt.Errorf("%s has version %d, not 1", file, kept.Version)
	}
	return kept.Tools, nil
}

// write writes what is learned. Where another process has learned more of a tool, that stays.
func (s *ShapeFile) write() {
	kept := s.catalog.KeptShapes()
	others, err := readShapes(s.file)
	if err != nil {
		s.logger.Warn("the learned shapes of answers are written anew", "error", err)
	}
	known := map[[2]string]KeptShape{}
	for _, k := range others {
		known[[2]string{k.Server, k.Tool}] = k
	}
	for i, k := range kept {
		if other, ok := known[[2]string{k.Server, k.Tool}]; ok && other.Definition == k.Definition && other.Answers > k.Answers {
			kept[i] = other
		}
	}
	raw, err := json.Marshal(keptShapes{1, kept})
	if err == nil && len(raw) > maxShapes {
		err = fmt.Errorf("they have more than %d bytes", maxShapes)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(s.file), 0o700)
	}
	if err == nil {
		err = disk.Replace(s.file, raw, 0o600)
	}
	if err != nil {
		s.logger.Warn("the learned shapes of answers are not kept", "error", err)
	}
}

// Learn learns from an answer what answers of its tool look like.
func (s *ShapeFile) Learn(ctx context.Context, tool *Tool, value json.RawMessage) {
	if drift := s.catalog.Learn(tool, value); len(drift) > 0 {
		s.logger.InfoContext(ctx, "a tool answered in another shape than before", "tool", tool.FullName(), "differences", drift)
	}
}
