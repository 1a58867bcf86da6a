package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/mcpclient"
)

// handle stands in the guest for what was saved as a file.
type handle struct {
	File     string `json:"file"` // path below /workspace
	MIMEType string `json:"mimeType,omitempty"`
	Bytes    int    `json:"bytes"`
	Note     string `json:"note,omitempty"`
}

// unwrap makes the value that a program sees of a result: the structured content or the text, never the wrapping.
// Images, audio and whatever is too large become files.
func (t *toolCall) unwrap(ctx context.Context, tool *catalog.Tool, result *mcpclient.Result, raw bool) (json.RawMessage, *frame.Error) {
	name := tool.FullName()
	value := result.Raw
	if !raw {
		var files []mcpclient.File
		var failure string
		if value, files, failure = mcpclient.Unwrap(result, tool.WrapsResult(), t.run.scope.MaxValue); failure != "" {
			return nil, toolError(name, failure)
		}
		var err error
		if value, err = t.place(ctx, value, files); err != nil {
			return nil, t.undelivered(name, err.Error())
		}
	}
	value, err := t.run.fit(ctx, t.call.N, value)
	if err != nil {
		return nil, t.undelivered(name, err.Error())
	}
	return bytes.Clone(value), nil // what it is a view of is released
}

// place saves the files of a result, and puts their handles into its value.
func (t *toolCall) place(ctx context.Context, value json.RawMessage, files []mcpclient.File) (json.RawMessage, error) {
	handles := make([]json.RawMessage, len(files))
	for i, f := range files {
		name := f.Name
		if !f.Large {
			name = fmt.Sprintf("%d-%s", i+1, f.Name)
		}
		saved, err := t.run.saveText(ctx, t.call.N, name, f.MIMEType, f.Content, f.Large)
		if err != nil {
			return nil, err
		}
		handles[i] = saved
	}
	return mcpclient.PlaceFiles(value, files, handles)
}

// saveText saves a file, without the personal data in it, if it is a text, and in its name. It returns its handle.
func (r *Run) saveText(ctx context.Context, n int, name, kind, content string, large bool) (json.RawMessage, error) {
	done := context.WithoutCancel(ctx)
	name, err := r.scope.Privacy.Hide(done, name)
	if err == nil && utf8.ValidString(content) {
		content, err = r.scope.Privacy.Hide(done, content)
	}
	if err != nil {
		return nil, fmt.Errorf("the answer cannot be saved: %w", err)
	}
	saved, err := r.save(ctx, n, name, kind, len(content), strings.NewReader(content), large)
	switch {
	case err != nil && large:
		return nil, r.tooLarge(len(content), err)
	case err != nil:
		return nil, fmt.Errorf("a file of the answer cannot be saved: %w", err)
	}
	return saved, nil
}

// save writes what does not enter the guest into the workspace and returns its handle.
func (r *Run) save(ctx context.Context, n int, name, kind string, size int, content io.Reader, large bool) (json.RawMessage, error) {
	h := handle{File: fmt.Sprintf("/workspace/results/%s/%d/%s", r.scope.Run, n, name), MIMEType: kind, Bytes: size}
	if large {
		h.Note = fmt.Sprintf("the answer is larger than %d bytes: read the file in parts with fs.readFile(file, {offset, length})", r.scope.MaxValue)
	}
	if err := r.scope.Files.WriteFrom(ctx, h.File, int64(size), content); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return raw, nil
}

// fit passes a value that is small enough; a larger one is saved, and the program gets its handle.
func (r *Run) fit(ctx context.Context, n int, value json.RawMessage) (json.RawMessage, error) {
	if len(value) <= r.scope.MaxValue {
		return value, nil
	}
	value, err := r.scope.Privacy.HideJSON(context.WithoutCancel(ctx), value)
	if err != nil {
		return nil, fmt.Errorf("the answer cannot be saved: %w", err)
	}
	saved, err := r.save(ctx, n, "result.json", "application/json", len(value), bytes.NewReader(value), true)
	if err != nil {
		return nil, r.tooLarge(len(value), err)
	}
	return saved, nil
}

func (r *Run) tooLarge(size int, err error) error {
	return fmt.Errorf("the answer has %d bytes, more than a program may hold (sandbox.maxValue), and cannot be saved: %w", size, err)
}
