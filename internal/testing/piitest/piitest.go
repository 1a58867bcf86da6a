// Package piitest makes filters of personal data for tests, with the real detectors and a vault in memory.
package piitest

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/pii/seal"
)

// Filter is a filter that counts the calls of its detector, and whose vault can be closed.
type Filter struct {
	*pii.Filter
	Asked  atomic.Int64
	Closed atomic.Bool
}

// ErrClosed is the error of a closed vault.
var ErrClosed = errors.New("the vault is closed")

type detector struct {
	*detect.Detector
	f *Filter
}

func (d detector) FindWith(text string, known detect.Known) []detect.Span {
	d.f.Asked.Add(1)
	return d.Detector.FindWith(text, known)
}

// New returns a filter whose vault is open.
func New(t testing.TB) *Filter {
	t.Helper()
	d, err := detect.New(detect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := &Filter{}
	memory := pii.NewMemory(1)
	f.Filter = pii.New(pii.Options{
		Detector: detector{d, f}, Types: d.Types(), Now: time.Now,
		Vault: func() (pii.Vault, error) { return memory, nil },
		Keys: func() (*seal.Keys, error) {
			if f.Closed.Load() {
				return nil, ErrClosed
			}
			return seal.New("the test", []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
		},
	})
	return f
}
