package model_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/testing/fake"
)

// record plays the script with a recorder. It returns the recording after encoding and decoding it as JSON.
func record(t *testing.T, p provider) (model.Recording, []model.Message) {
	t.Helper()
	recorder := model.NewRecorder(open(t, serve(t, fake.Replies(script...)), p.cfg))
	talk := play(t, recorder)
	raw, err := json.Marshal(recorder.Recording())
	if err != nil {
		t.Fatal(err)
	}
	var rec model.Recording
	decode(t, string(raw), &rec)
	return rec, talk
}

func TestReplay(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p provider) {
		rec, talk := record(t, p)
		again := model.NewRecorder(model.NewRecorded(rec))
		got := play(t, again)
		if diff := cmp.Diff(talk, got, cmpopts.IgnoreFields(model.Turn{}, "Duration")); diff != "" {
			t.Errorf("the replay differs (-recorded +replayed):\n%s", diff)
		}
		if diff := cmp.Diff(rec, again.Recording()); diff != "" {
			t.Errorf("a recording of the replay differs (-recorded +replayed):\n%s", diff)
		}
		if again.Info() != rec.Model || rec.Model.Name == "" {
			t.Errorf("info %+v, want %+v", again.Info(), rec.Model)
		}
	})
}

func TestReplayDiverges(t *testing.T) {
	t.Parallel()
	rec, talk := record(t, providers[0])
	for _, c := range []struct {
		name   string
		change func(*model.Request)
		what   string
	}{
		{"system", func(r *model.Request) { r.System += "!" }, "system prompt"},
		{"tools", func(r *model.Request) { r.Tools = r.Tools[:1] }, "tools"},
		{"more messages", func(r *model.Request) { r.Messages = append(r.Messages, user("?")) }, "4 messages instead of 3"},
		{"text", func(r *model.Request) { r.Messages[0].Text = "How many?" }, "messages differ"},
		{"result", func(r *model.Request) { r.Messages[2].Results[0].Text = "mail__delete" }, "messages differ"},
		{"error", func(r *model.Request) { r.Messages[2].Results[0].IsError = true }, "messages differ"},
		{"arguments", func(r *model.Request) { r.Messages[1].Turn.Calls[0].Input = json.RawMessage(`{"query":"spam"}`) }, "messages differ"},
	} {
		m := model.NewRecorded(rec)
		generate(t, m, ask(talk[0]))
		var copied []model.Message
		raw, err := json.Marshal(talk[:3])
		if err != nil {
			t.Fatal(err)
		}
		decode(t, string(raw), &copied)
		req := ask(copied...)
		c.change(req)
		_, err = m.Generate(t.Context(), req)
		var d *model.DivergedError
		if !errors.As(err, &d) || d.Turn != 2 || !strings.Contains(err.Error(), c.what) {
			t.Errorf("%s: error %v", c.name, err)
		}
		if m.Left() != 3 {
			t.Errorf("%s: %d turns left, want 3", c.name, m.Left())
		}
	}
}

// TestReplayIgnores: a replay accepts requests whose differences do not matter.
func TestReplayIgnores(t *testing.T) {
	t.Parallel()
	rec, talk := record(t, providers[0])
	m := model.NewRecorded(rec)
	generate(t, m, ask(talk[0]))
	turn := *talk[1].Turn
	turn.Raw, turn.Usage, turn.Provider, turn.Duration = nil, model.Usage{}, "other", 7
	turn.Calls = append([]model.ToolCall(nil), turn.Calls...)
	turn.Calls[0].ID = "other"
	turn.Calls[0].Input = json.RawMessage(` {"query" : "mail \u0026 <more>"}`)
	generate(t, m, ask(talk[0], model.Message{Role: model.RoleAssistant, Turn: &turn}, talk[2]))
}

func TestReplayEnds(t *testing.T) {
	t.Parallel()
	_, err := model.NewRecorded(model.Recording{}).Generate(t.Context(), ask(user("Hi.")))
	var d *model.DivergedError
	if !errors.As(err, &d) || d.Turn != 1 || !strings.Contains(err.Error(), "only 0 turns are recorded") {
		t.Errorf("error %v", err)
	}
}

func TestReplayStreams(t *testing.T) {
	t.Parallel()
	rec, talk := record(t, providers[0])
	var got []model.Delta
	req := ask(talk[0])
	req.OnDelta = func(d model.Delta) { got = append(got, d) }
	turn := generate(t, model.NewRecorded(rec), req)
	want := []model.Delta{{Text: "Let me look."}, {Call: "search_tools", CallID: turn.Calls[0].ID, Input: `{"query":"mail & <more>"}`}}
	if diff := cmp.Diff(want, got, sameJSON); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
