package model_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/model"
)

// streaming returns a model whose server sends body as its stream.
func streaming(t *testing.T, body io.Reader) model.Model {
	t.Helper()
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		header := http.Header{"Content-Type": {"text/event-stream"}}
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(body), Request: r}, nil
	})}
	m, err := model.New(model.Config{Provider: model.Compatible, Name: "m", BaseURL: "http://host/v1", HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestStreamForms has a stream with everything that the format allows: comments, other fields, line ends of two characters, data in several lines, no space
// after the colon, and an event that is incomplete because the stream ends.
func TestStreamForms(t *testing.T) {
	t.Parallel()
	body := ": hello\r\n\r\nevent: x\r\nid: 1\r\ndata:{\"choices\":[\r\ndata: {\"delta\":{\"content\":\"Yes\"},\r\ndata: \"finish_reason\":\"stop\"}]}\r\n\r\n\r\n" +
		"data: {\"choices\":[{\"delta\":{\"content\":\" and no\"}}]}"
	if turn := generate(t, streaming(t, strings.NewReader(body)), ask(user("Hi."))); turn.Text != "Yes" {
		t.Errorf("text %q", turn.Text)
	}
}

// TestStreamBounds has events that are too long, in one line and in many.
func TestStreamBounds(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"data: " + strings.Repeat("x", 33<<20), strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 33)} {
		_, err := streaming(t, strings.NewReader(line)).Generate(t.Context(), ask(user("Hi.")))
		if kindOf(err) != model.KindCut {
			t.Errorf("error %v", err)
		}
	}
}
