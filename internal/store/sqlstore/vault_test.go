package sqlstore_test

import (
	"path/filepath"
	"testing"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/store/sqlstore"
	"mcp-code-exec-harness/internal/testing/vaulttest"
)

func TestVault(t *testing.T) {
	t.Parallel()
	vaulttest.Exercise(t, vaulttest.Options{}, func(t testing.TB) vaulttest.Place {
		path := filepath.Join(t.TempDir(), "harness.db")
		return func(t testing.TB) pii.Vault {
			s, err := sqlstore.Open(t.Context(), path, sqlstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s.Vault()
		}
	})
}
