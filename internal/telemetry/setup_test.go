package telemetry

import (
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hide is a redaction for tests.
func hide(s string) string { return strings.ReplaceAll(s, "alice@example.com", "[EMAIL_1]") }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
