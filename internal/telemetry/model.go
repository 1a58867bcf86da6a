package telemetry

import (
	"context"
	"time"

	"mcp-code-exec-harness/internal/model"
)

// ObserveModel returns the model with its turns counted and traced. metrics may be nil.
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

// Embedder asks a model for vectors of texts, and counts what that costs.
type Embedder struct {
	model   *model.Embedder
	prices  model.Prices
	metrics *Metrics
}

// ObserveEmbedder counts the requests for vectors, their tokens and, where the price is known, what they cost.
func ObserveEmbedder(m *model.Embedder, prices model.Prices, metrics *Metrics) *Embedder {
	return &Embedder{m, prices, metrics}
}

// Embed returns a vector for each text.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	info, began := e.model.Info(), time.Now()
	vectors, usage, err := e.model.Embed(ctx, texts)
	var cost *float64
	if usd, known := e.prices.Cost(info.Provider, info.Name, usage); known {
		cost = &usd
	}
	e.metrics.ModelTurn(info, usage, cost, time.Since(began), err)
	return vectors, err
}
