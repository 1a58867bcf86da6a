package web

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"
)

// recording sends the journal of a run as a file for harness exec --replay. It holds one page of the journal at a time.
func (v *visit) recording() error {
	id := v.r.PathValue("id")
	var page struct {
		Records []json.RawMessage `json:"records"`
		Next    int64             `json:"next"`
	}
	next := func(after int64) error {
		page.Records, page.Next = nil, 0
		return v.get(at("/v1/runs/", id, "/journal"), &page, "cursor", strconv.FormatInt(after, 10))
	}
	if err := next(0); err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "application/json")
	v.w.Header().Set("Content-Disposition", `attachment; filename="recording.json"`)
	io.WriteString(v.w, `{"version":1,"runs":[{"records":[`) //nolint:errcheck // if the browser is gone, the next call of next fails
	for first := true; ; first = false {
		for i, r := range page.Records {
			if !first || i > 0 {
				io.WriteString(v.w, ",\n") //nolint:errcheck // as above
			}
			v.w.Write(r) //nolint:errcheck // as above
		}
		if page.Next == 0 || len(page.Records) == 0 {
			break
		}
		http.NewResponseController(v.w).SetWriteDeadline(time.Now().Add(writeTime)) //nolint:errcheck // a test's recorder has none
		if next(page.Next) != nil {
			panic(http.ErrAbortHandler) // the browser notices that the file is incomplete
		}
	}
	_, _ = io.WriteString(v.w, "]}]}\n") // the browser may be gone
	return nil
}
