package n8n

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/mcpclient"
)

// server is one of the servers of an instance.
type server struct {
	name, title  string
	instructions string
	version      string
	offered      []tool
	changed      func() // called after a call of a tool that may have changed something; may be nil
}

var _ mcpclient.Within = (*server)(nil)

// tool is the definition of a tool with its handler.
type tool struct {
	mcpclient.Tool
	handle func(ctx context.Context, sent func(), args json.RawMessage) (any, error)
}

// object is a JSON object. Its numbers are json.Number, so that they are written as they were read.
type object = map[string]any

// Describe implements [mcpclient.Within].
func (s *server) Describe() (mcpclient.Info, string) {
	return mcpclient.Info{Name: s.name, Title: s.title, Version: s.version}, s.instructions
}

// Tools implements [mcpclient.Within].
func (s *server) Tools(context.Context) ([]mcpclient.Tool, error) {
	all := make([]mcpclient.Tool, len(s.offered))
	for i, t := range s.offered {
		all[i] = t.Tool
	}
	return all, nil
}

// Call implements [mcpclient.Within].
func (s *server) Call(ctx context.Context, name string, args json.RawMessage, sent func()) (json.RawMessage, error) {
	at := slices.IndexFunc(s.offered, func(t tool) bool { return t.Name == name })
	value, err := s.offered[at].handle(ctx, sent, args)
	if s.changed != nil && !*s.offered[at].Annotations.ReadOnly {
		s.changed()
	}
	return result(value, err)
}

// result returns the result of a tools/call for the value or error of a handler.
func result(value any, err error) (json.RawMessage, error) {
	if err != nil {
		if unknown, is := errors.AsType[*mcpclient.WithinError](err); is {
			return nil, unknown
		}
		out := object{"isError": true, "content": []object{{"type": "text", "text": err.Error()}}}
		if refused, is := errors.AsType[*refusal](err); is && refused.data != nil {
			out["structuredContent"] = refused.data
		}
		return json.Marshal(out)
	}
	body, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	if body[0] != '{' {
		body = slices.Concat([]byte(`{"result":`), body, []byte("}"))
	}
	return slices.Concat([]byte(`{"content":[],"structuredContent":`), body, []byte("}")), nil
}

// refusal is the error of a call that was not carried out. data is part of the answer, for programs.
type refusal struct {
	text string
	data object
}

func (r *refusal) Error() string { return r.text }

// refusef returns a refusal with an HTTP status.
func refusef(status int, format string, args ...any) error {
	return &refusal{fmt.Sprintf(format, args...), object{"status": status}}
}

// decode decodes JSON and keeps numbers as they are written.
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}

// hints are the annotations of a tool: reads is read-only, destroys is destructive, repeats is idempotent, inside is not open-world.
type hints struct{ reads, destroys, repeats, inside bool }

// define returns a tool that decodes its input and passes it to handle. input contains the properties of the input schema, as for objectSchema; a
// property whose name begins with ! is required. output is the output schema.
func define[In any](name, description, input, output string, h hints, handle func(ctx context.Context, sent func(), in In) (any, error)) tool {
	title := strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "_", " ")
	return tool{
		Tool: mcpclient.Tool{
			Name: name, Title: title, Description: description, InputSchema: objectSchema(input), OutputSchema: json.RawMessage(output),
			Annotations: mcpclient.Annotations{ReadOnly: &h.reads, Destructive: &h.destroys, Idempotent: new(h.repeats || h.reads), OpenWorld: new(!h.inside)},
		},
		handle: func(ctx context.Context, sent func(), args json.RawMessage) (any, error) {
			var in In
			if err := decode(args, &in); err != nil {
				return nil, refusef(400, "the input has a wrong shape: %v", err)
			}
			return handle(ctx, sent, in)
		},
	}
}

// objectSchema returns the schema of an object with properties that are written as the members of a JSON object.
func objectSchema(properties string) json.RawMessage {
	var required []string
	for _, part := range strings.Split(properties, `"!`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		required = append(required, name)
	}
	schema := `{"type":"object","properties":{` + strings.ReplaceAll(properties, `"!`, `"`) + `}`
	if len(required) > 0 {
		names, _ := json.Marshal(required) // strings always encode
		schema += `,"required":` + string(names)
	}
	return json.RawMessage(schema + `,"additionalProperties":false}`)
}

// listOf returns the schema of a result that is a list.
func listOf(items string) string {
	return `{"type":"object","properties":{"result":{"type":"array","items":` + items + `}},"required":["result"],"additionalProperties":false}`
}

// reshape converts a JSON value to another type.
func reshape(from, into any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	if err := decode(data, into); err != nil {
		return refusef(400, "the input has a wrong shape: %v", err)
	}
	return nil
}
