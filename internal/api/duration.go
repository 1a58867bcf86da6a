package api

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/config"
)

const badDuration = `a time span is a number of milliseconds or text such as "30s"`

// Duration is a time span: a number of milliseconds, or text such as "30s".
type Duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var ms float64
	if json.Unmarshal(text, &ms) == nil && ms >= 0 && ms < float64(time.Duration(1<<62)/time.Millisecond) {
		*d = Duration(ms * float64(time.Millisecond))
		return nil
	}
	var s string
	if err := json.Unmarshal(text, &s); err == nil {
		if v, err := config.ParseDuration(s); err == nil {
			*d = Duration(v)
			return nil
		}
	}
	return errors.New(badDuration)
}

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// Schema implements huma.SchemaProvider.
func (Duration) Schema(huma.Registry) *huma.Schema {
	least := 0.0
	return &huma.Schema{
		Description: `A number of milliseconds, or text such as "30s".`,
		OneOf:       []*huma.Schema{{Type: huma.TypeNumber, Minimum: &least}, {Type: huma.TypeString, Pattern: `^(0|([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h|d))+)$`, Examples: []any{"30s", "2m", "1d"}}},
	}
}
