package sqlstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
)

// maxInline is the maximum size, in bytes, of a value that is stored in its record's row. Larger values are stored as blobs.
const maxInline = 4 << 10

// row is a record in the form of the table journal.
type row struct {
	seq   int64
	kind  string
	n     int // number of the call
	data  []byte
	blobs []blob

	sent    int64 // time of an intent
	inDoubt bool  // true if the answer says that the outcome of the write is unknown
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

// large is a field that may be a blob: JSON or text.
type large struct {
	name string
	raw  *json.RawMessage
	text *string
}

// split makes a record point to a copy of its body. It returns the copy, and those fields of the copy that may be blobs.
func split(r *journal.Record) (kind string, n int, body any, fields []large) {
	switch {
	case r.Start != nil:
		b := own(&r.Start)
		return "start", 0, b, []large{
			{"source", nil, &b.Source}, {"program", &b.Program, nil}, {"map", nil, &b.Map}, {"limits", &b.Limits, nil},
		}
	case r.Call != nil:
		b := own(&r.Call)
		return "call", b.N, b, []large{{"args", &b.Args, nil}}
	case r.Intent != nil:
		b := own(&r.Intent)
		return "intent", b.N, b, []large{{"before", &b.Before, nil}}
	case r.Answer != nil:
		b := own(&r.Answer)
		return "answer", b.N, b, []large{{"value", &b.Value, nil}, {"error", &b.Error, nil}, {"beside", &b.Beside, nil}}
	case r.Log != nil:
		b := own(&r.Log)
		return "log", 0, b, []large{{"text", nil, &b.Text}}
	default:
		b := own(&r.End)
		return "end", 0, b, []large{{"output", &b.Output, nil}, {"error", &b.Error, nil}}
	}
}

// own makes *p point to a copy of **p, and returns that pointer.
func own[T any](p **T) *T {
	value := **p
	*p = &value
	return &value
}

// encode returns the row of a record. The row shares no memory with the record. Inline JSON loses insignificant whitespace.
func encode(r journal.Record) (row, error) {
	kind, n, body, fields := split(&r)
	out := row{seq: r.Seq, kind: kind, n: n}
	switch {
	case r.Intent != nil:
		out.sent = r.Intent.Time
	case r.Answer != nil:
		out.inDoubt = errorKind(r.Answer.Error) == frame.KindInDoubt
	}
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
	if out.data, err = journal.Encode(body); err != nil {
		return row{}, fmt.Errorf("record %d (%s): %w", r.Seq, kind, err)
	}
	return out, nil
}

// decode returns the record of a row, without the fields that are stored as blobs.
func decode(seq int64, kind string, data []byte) (r journal.Record, err error) {
	if err := json.Unmarshal(fmt.Appendf(nil, "{%q: %s}", kind, data), &r); err != nil {
		return r, fmt.Errorf("record %d (%s): %w", seq, kind, err)
	}
	if r == (journal.Record{}) {
		return r, fmt.Errorf("record %d is of unknown type %q", seq, kind)
	}
	r.Seq = seq
	return r, nil
}

// setField sets a field of a record to the data of its blob.
func setField(r *journal.Record, field string, data []byte) error {
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
