package api

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

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
		if v, err := time.ParseDuration(s); err == nil && v >= 0 {
			*d = Duration(v)
			return nil
		}
	}
	return fmt.Errorf(`a time span is a number of milliseconds or text such as "30s"`)
}

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// Schema implements huma.SchemaProvider.
func (Duration) Schema(huma.Registry) *huma.Schema {
	least := 0.0
	return &huma.Schema{
		Description: `A number of milliseconds, or text such as "30s".`,
		OneOf:       []*huma.Schema{{Type: huma.TypeNumber, Minimum: &least}, {Type: huma.TypeString, Examples: []any{"30s", "2m"}}},
	}
}
