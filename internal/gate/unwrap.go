package gate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

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
	if raw {
		return t.run.fit(ctx, t.call.N, name, result.Raw)
	}
	value, files, failure := mcpclient.Unwrap(result, tool.OutputSchema)
	if failure != "" {
		return nil, toolError(name, failure)
	}
	handles := make([]json.RawMessage, len(files))
	for i, f := range files {
		saved, err := t.run.save(ctx, t.call.N, fmt.Sprintf("%d-%s", i+1, f.Name), f.Bytes)
		if err != nil {
			return nil, toolError(name, fmt.Sprintf("%s answered with a file that could not be saved: %v", name, err))
		}
		handles[i], _ = json.Marshal(handle{File: saved, MIMEType: f.MIMEType, Bytes: len(f.Bytes)})
	}
	value, err := mcpclient.PlaceFiles(value, files, handles)
	if err != nil {
		return nil, toolError(name, err.Error())
	}
	return t.run.fit(ctx, t.call.N, name, value)
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
func (r *Run) fit(ctx context.Context, n int, name string, value json.RawMessage) (json.RawMessage, *frame.Error) {
	limit := r.scope.MaxValue
	if len(value) <= limit {
		return value, nil
	}
	value, failed := r.scope.Privacy.HideJSON(ctx, value)
	if failed != nil {
		return nil, toolError(name, fmt.Sprintf("%s was answered, but the answer cannot be kept: %v", name, failed))
	}
	data, kind, file := []byte(value), "application/json", "result.json"
	var text string
	if json.Unmarshal(value, &text) == nil {
		data, kind, file = []byte(text), "text/plain", "result.txt"
	}
	saved, err := r.save(ctx, n, file, data)
	if err != nil {
		return nil, toolError(name, fmt.Sprintf(
			"%s answered with %d bytes, more than a program may hold (sandbox.maxValue), and they could not be saved: %v",
			name, len(value), err))
	}
	return encode(handle{File: saved, MIMEType: kind, Bytes: len(data), Note: fmt.Sprintf(
		"the answer is larger than %d bytes: read the file in parts with fs.readFile(file, {offset, length})", limit)})
}
