package sqlite

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"mcp-code-exec-harness/internal/journal"
)

// maxInline is the largest value that is kept in its record; larger ones are blobs.
const maxInline = 4 << 10

// row is a record as the journal's table keeps it.
type row struct {
	seq   int64
	kind  string
	n     int // of the call
	data  []byte
	blobs []blob
}

type blob struct {
	field string
	hash  [sha256.Size]byte
	data  []byte
}

func (r *row) bytes() int {
	n := len(r.data)
	for i := range r.blobs {
		n += len(r.blobs[i].data)
	}
	return n
}

// large is a field that may be a blob.
type large struct {
	name string
	raw  *json.RawMessage
	text *string
}

// split copies what a record holds, and names the copy's large fields.
func split(r *journal.Record) (kind string, n int, body any, fields []large) {
	switch {
	case r.Start != nil:
		b := *r.Start
		r.Start = &b
		return "start", 0, &b, []large{
			{"source", nil, &b.Source}, {"program", &b.Program, nil}, {"map", nil, &b.Map}, {"limits", &b.Limits, nil},
		}
	case r.Call != nil:
		b := *r.Call
		r.Call = &b
		return "call", b.N, &b, []large{{"args", &b.Args, nil}}
	case r.Intent != nil:
		b := *r.Intent
		r.Intent = &b
		return "intent", b.N, &b, []large{{"before", &b.Before, nil}}
	case r.Answer != nil:
		b := *r.Answer
		r.Answer = &b
		return "answer", b.N, &b, []large{{"value", &b.Value, nil}, {"error", &b.Error, nil}}
	case r.Log != nil:
		b := *r.Log
		r.Log = &b
		return "log", 0, &b, []large{{"text", nil, &b.Text}}
	default:
		b := *r.End
		r.End = &b
		return "end", 0, &b, []large{{"output", &b.Output, nil}, {"error", &b.Error, nil}}
	}
}

// encode makes a record's row. It copies all it keeps. JSON loses insignificant whitespace where it stays inline.
func encode(r journal.Record) (row, error) {
	kind, n, body, fields := split(&r)
	out := row{seq: r.Seq, kind: kind, n: n}
	for _, f := range fields {
		var data []byte
		switch {
		case f.raw != nil && len(*f.raw) > maxInline:
			data = bytes.Clone(*f.raw)
			*f.raw = nil
		case f.text != nil && len(*f.text) > maxInline:
			data = []byte(*f.text)
			*f.text = ""
		default:
			continue
		}
		out.blobs = append(out.blobs, blob{field: f.name, hash: sha256.Sum256(data), data: data})
	}
	var err error
	if out.data, err = encodeJSON(body); err != nil {
		return row{}, fmt.Errorf("record %d (%s): %w", r.Seq, kind, err)
	}
	return out, nil
}

// encodeJSON leaves the characters of embedded JSON as they are.
func encodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// decode makes a row's record again, without its blobs.
func decode(seq int64, kind string, data []byte) (journal.Record, error) {
	r := journal.Record{Seq: seq}
	var body any
	switch kind {
	case "start":
		r.Start = new(journal.Start)
		body = r.Start
	case "call":
		r.Call = new(journal.Call)
		body = r.Call
	case "intent":
		r.Intent = new(journal.Intent)
		body = r.Intent
	case "answer":
		r.Answer = new(journal.Answer)
		body = r.Answer
	case "log":
		r.Log = new(journal.Log)
		body = r.Log
	case "end":
		r.End = new(journal.End)
		body = r.End
	default:
		return r, fmt.Errorf("record %d is of unknown type %q", seq, kind)
	}
	if err := json.Unmarshal(data, body); err != nil {
		return r, fmt.Errorf("record %d (%s): %w", seq, kind, err)
	}
	return r, nil
}

// place puts a blob back into its field.
func place(r *journal.Record, field string, data []byte) error {
	kind, _, _, fields := split(r)
	for _, f := range fields {
		switch {
		case f.name != field:
		case f.raw != nil:
			*f.raw = data
			return nil
		default:
			*f.text = string(data)
			return nil
		}
	}
	return fmt.Errorf("record %d (%s) has no field %q", r.Seq, kind, field)
}
