package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const recordingVersion = 1

// Recording is the document that --record writes, with EncodeLines, and --replay reads. Keys have a stable order. Like the journals,
// it contains only text in which tokens replace personal data.
type Recording struct {
	Version int           `json:"version"`
	Runs    []RecordedRun `json:"runs"`
}

// RecordedRun is one run's whole journal; the first record is its start.
type RecordedRun struct {
	Records []Record `json:"records"`
}

// NewRecording returns a Recording of the given journals.
func NewRecording(journals ...[]Record) *Recording {
	rec := &Recording{Version: recordingVersion, Runs: []RecordedRun{}}
	for _, j := range journals {
		rec.Runs = append(rec.Runs, RecordedRun{Records: j})
	}
	return rec
}

// DecodeRecording decodes and checks a whole document. Unknown fields and invalid journals are errors. Values in the result have
// no insignificant whitespace.
func DecodeRecording(rd io.Reader) (_ *Recording, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read recording: %w", err)
		}
	}()
	text, err := io.ReadAll(rd)
	if err != nil {
		return nil, err
	}
	var whole json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, syntax(text, err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, whole); err != nil {
		return nil, err
	}
	var head struct {
		Version *int `json:"version"`
	}
	switch err := json.Unmarshal(compact.Bytes(), &head); {
	case err != nil || head.Version == nil:
		return nil, errors.New(`it has no "version": it is not a recording; write one with --record`)
	case *head.Version != recordingVersion:
		return nil, fmt.Errorf("it has version %d, this program reads version %d: replay it with the release that wrote it",
			*head.Version, recordingVersion)
	}
	dec := json.NewDecoder(&compact)
	dec.DisallowUnknownFields()
	rec := &Recording{}
	if err := dec.Decode(rec); err != nil {
		return nil, err
	}
	if len(rec.Runs) == 0 {
		return nil, errors.New("it holds no run")
	}
	for i, run := range rec.Runs {
		if err := Check(run.Records); err != nil {
			return nil, fmt.Errorf("run %d: %w", i+1, err)
		}
	}
	return rec, nil
}

// syntax returns err with a detail: the position of the syntax error in text, or that text is empty or truncated.
func syntax(text []byte, err error) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("it is empty")
	}
	se, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return err
	}
	if se.Offset >= int64(len(text)) {
		return fmt.Errorf("it is truncated after %d bytes: %w", len(text), err)
	}
	before := text[:se.Offset]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n') - 1
	return fmt.Errorf("line %d, column %d: %w", line, column, err)
}
