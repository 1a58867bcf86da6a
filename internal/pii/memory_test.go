package pii_test

import (
	"testing"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/testing/vaulttest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	vaulttest.Exercise(t, vaulttest.Options{}, func(testing.TB) vaulttest.Place {
		m := pii.NewMemory(1)
		return func(testing.TB) pii.Vault { return m }
	})
}
