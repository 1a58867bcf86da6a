package sqlstore

import (
	"context"
	"testing"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/testing/postgrestest"
	"mcp-code-exec-harness/internal/testing/storetest"
	"mcp-code-exec-harness/internal/testing/vaulttest"
)

// openServer opens a store in a schema of a server.
func openServer(t testing.TB, url string, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Fast...)
	t.Run("store", func(t *testing.T) {
		storetest.Exercise(t, storetest.Options{Workers: true}, func(t *testing.T) storetest.Place {
			url := server.Schema(t)
			return func(t *testing.T) storetest.Store { return openServer(t, url, Options{}) }
		})
	})
	t.Run("vault", func(t *testing.T) {
		vaulttest.Exercise(t, vaulttest.Options{}, func(t testing.TB) vaulttest.Place {
			url := server.Schema(t)
			return func(t testing.TB) pii.Vault { return openServer(t, url, Options{}).Vault() }
		})
	})
}
