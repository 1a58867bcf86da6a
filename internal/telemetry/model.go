package telemetry

import (
	"context"
	"time"

	"mcp-code-exec-harness/internal/model"
)

// ObserveModel returns a model whose turns are counted and traced.
func ObserveModel(m model.Model, prices model.Prices, metrics *Metrics) model.Model {
	return &observedModel{m, prices, metrics}
}

type observedModel struct {
	model.Model
	prices  model.Prices
	metrics *Metrics
}

func (m *observedModel) Generate(ctx context.Context, req *model.Request) (*model.Turn, error) {
	ctx, end := StartModel(ctx, m.Info())
	began := time.Now()
	turn, err := m.Model.Generate(ctx, req)
	end(turn, err)
	var usage model.Usage
	var cost *float64
	if turn != nil {
		usage = turn.Usage
		if usd, known := m.prices.Cost(turn.Provider, turn.Model, usage); known {
			cost = &usd
		}
	}
	m.metrics.ModelTurn(m.Info(), usage, cost, time.Since(began), err)
	return turn, err
}
