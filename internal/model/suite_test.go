package model_test

import (
	"context"
	"encoding/json"
	"testing"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/testing/fake"
	"mcp-code-exec-harness/internal/testing/modeltest"
)

// TestModels runs the suite modeltest on every implementation of Model.
func TestModels(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p provider) {
		modeltest.Exercise(t, func(t *testing.T, replies []fake.Reply) model.Model {
			return open(t, serve(t, fake.Replies(replies...)), p.cfg)
		})
	})
	t.Run("fenced", func(t *testing.T) {
		t.Parallel()
		modeltest.Exercise(t, func(t *testing.T, replies []fake.Reply) model.Model {
			var texts []fake.Reply
			for _, r := range replies {
				for _, c := range r.Calls {
					var input struct{ Code string }
					decode(t, c.Input, &input)
					r.Text += "\n```js\n" + input.Code + "\n```"
				}
				texts = append(texts, fake.Reply{Text: r.Text})
			}
			cfg := local
			cfg.Tools = model.ToolsFenced
			return open(t, serve(t, fake.Replies(texts...)), cfg)
		})
	})
	t.Run("recorded", func(t *testing.T) {
		t.Parallel()
		modeltest.Exercise(t, func(t *testing.T, replies []fake.Reply) model.Model {
			return &replayed{recorder: model.NewRecorder(open(t, serve(t, fake.Replies(replies...)), providers[0].cfg))}
		})
	})
}

// replayed is a model that records each turn and then replays it from the recording.
type replayed struct {
	recorder *model.Recorder
	asked    []*model.Request
}

func (r *replayed) Info() model.Info { return r.recorder.Info() }

func (r *replayed) Generate(ctx context.Context, req *model.Request) (*model.Turn, error) {
	quiet := *req
	quiet.OnDelta = nil
	if _, err := r.recorder.Generate(ctx, &quiet); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(r.recorder.Recording())
	if err != nil {
		return nil, err
	}
	var rec model.Recording
	if err := json.Unmarshal(raw, &rec); err != nil {
		return nil, err
	}
	m := model.NewRecorded(rec)
	for _, before := range r.asked {
		if _, err := m.Generate(ctx, before); err != nil {
			return nil, err
		}
	}
	r.asked = append(r.asked, &quiet)
	return m.Generate(ctx, req)
}
