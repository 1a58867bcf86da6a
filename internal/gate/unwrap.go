package gate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
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
		if value, files, failure = mcpclient.Unwrap(result, tool.OutputSchema); failure != "" {
			return nil, toolError(name, failure)
		}
		var err error
		if value, err = t.place(ctx, value, files); err != nil {
			return nil, t.untold(name, err.Error())
		}
	}
	value, err := t.run.fit(ctx, t.call.N, value)
	if err != nil {
		return nil, t.untold(name, err.Error())
	}
	return value, nil
}

// place saves the files of a result, and puts their handles into its value.
func (t *toolCall) place(ctx context.Context, value json.RawMessage, files []mcpclient.File) (json.RawMessage, error) {
	handles := make([]json.RawMessage, len(files))
	for i, f := range files {
		err := t.run.hideFile(ctx, &f)
		if err != nil {
			return nil, fmt.Errorf("a file of the answer cannot be saved: %w", err)
		}
		saved, err := t.run.save(ctx, t.call.N, fmt.Sprintf("%d-%s", i+1, f.Name), f.Bytes)
		if err != nil {
			return nil, fmt.Errorf("a file of the answer cannot be saved: %w", err)
		}
		handles[i], _ = json.Marshal(handle{File: saved, MIMEType: f.MIMEType, Bytes: len(f.Bytes)})
	}
	return mcpclient.PlaceFiles(value, files, handles)
}

// hideFile hides personal data in a file that is a text, and in its name.
func (r *Run) hideFile(ctx context.Context, f *mcpclient.File) (err error) {
	keep := context.WithoutCancel(ctx)
	if f.Name, err = r.scope.Privacy.Hide(keep, f.Name); err != nil || !utf8.Valid(f.Bytes) {
		return err
	}
	text, err := r.scope.Privacy.Hide(keep, string(f.Bytes))
	f.Bytes = []byte(text)
	return err
}

// save writes what does not enter the guest into the workspace and returns its path there.
func (r *Run) save(ctx context.Context, n int, name string, data []byte) (string, error) {
	file := fmt.Sprintf("/workspace/results/%s/%d/%s", r.scope.Run, n, name)
	args, err := json.Marshal(map[string]string{"path": file, "base64": base64.StdEncoding.EncodeToString(data)})
	if err != nil {
		return "", err
	}
	if _, failed := r.scope.Files.Call(ctx, "writeFile", args); failed != nil {
		return "", failed
	}
	return file, nil
}

// fit passes a value that is small enough; a larger one is saved, and the program gets the file's name.
func (r *Run) fit(ctx context.Context, n int, value json.RawMessage) (json.RawMessage, error) {
	limit := r.scope.MaxValue
	if len(value) <= limit {
		return value, nil
	}
	value, err := r.scope.Privacy.HideJSON(context.WithoutCancel(ctx), value)
	if err != nil {
		return nil, fmt.Errorf("the answer cannot be kept: %w", err)
	}
	data, kind, file := []byte(value), "application/json", "result.json"
	var text string
	if json.Unmarshal(value, &text) == nil {
		data, kind, file = []byte(text), "text/plain", "result.txt"
	}
	saved, err := r.save(ctx, n, file, data)
	if err != nil {
		return nil, fmt.Errorf("the answer has %d bytes, more than a program may hold (sandbox.maxValue), and cannot be saved: %w", len(value), err)
	}
	raw, err := json.Marshal(handle{File: saved, MIMEType: kind, Bytes: len(data), Note: fmt.Sprintf(
		"the answer is larger than %d bytes: read the file in parts with fs.readFile(file, {offset, length})", limit)})
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return raw, nil
}
