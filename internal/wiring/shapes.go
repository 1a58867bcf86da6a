package wiring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/disk"
)

const (
	// keepShapesEvery is how often what was learned of answers is written at most.
	keepShapesEvery = 5 * time.Second
	shapesName      = "shapes.json" // file in the state directory
	// maxShapes is the size of the file that is read, in bytes.
	maxShapes = 32 << 20
)

// keptShapes is the file of what was learned of answers.
type keptShapes struct {
	Version int                 `json:"version"` // 1
	Tools   []catalog.KeptShape `json:"tools"`
}

func (h *Harness) shapesFile() string { return filepath.Join(h.cfg.StateDir, shapesName) }

// keepShapes reads what earlier processes learned of answers, and writes what this one learns until the harness closes. What cannot be
// read is learned again.
func (h *Harness) keepShapes() {
	kept, err := readShapes(h.shapesFile())
	if err != nil {
		h.out.Logger.Warn("the learned shapes of answers cannot be read; they are learned anew", "error", err)
	}
	h.catalog.RestoreShapes(slices.DeleteFunc(kept, func(k catalog.KeptShape) bool {
		return !slices.ContainsFunc(h.cfg.MCPServers, func(s *config.MCPServer) bool { return s.Name == k.Server })
	}))
	changed := h.catalog.ShapesChanged()
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
					h.writeShapes()
				default:
				}
				return
			case <-tick.C:
			}
			select {
			case <-changed:
				h.writeShapes()
			default:
			}
		}
	}()
	h.atClose(func() error { close(end); <-ended; return nil })
}

func readShapes(file string) ([]catalog.KeptShape, error) {
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

// writeShapes writes what is learned. Where another process has learned more of a tool, that stays.
func (h *Harness) writeShapes() {
	kept := h.catalog.KeptShapes()
	others, err := readShapes(h.shapesFile())
	if err != nil {
		h.out.Logger.Warn("the learned shapes of answers are written anew", "error", err)
	}
	known := map[[2]string]catalog.KeptShape{}
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
		err = os.MkdirAll(h.cfg.StateDir, 0o700)
	}
	if err == nil {
		err = disk.Replace(h.shapesFile(), raw, 0o600)
	}
	if err != nil {
		h.out.Logger.Warn("the learned shapes of answers are not kept", "error", err)
	}
}

// learner is what learns from answers; nil learns nothing.
func (h *Harness) learner() func(context.Context, *catalog.Tool, json.RawMessage) {
	if !h.cfg.Learning.Shapes {
		return nil
	}
	return h.learn
}

// learn learns from an answer what answers of its tool look like.
func (h *Harness) learn(ctx context.Context, tool *catalog.Tool, value json.RawMessage) {
	if drift := h.catalog.Learn(tool, value); len(drift) > 0 {
		h.out.Logger.InfoContext(ctx, "a tool answered in another shape than before", "tool", tool.FullName(), "differences", drift)
	}
}
