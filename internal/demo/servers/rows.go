package servers

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

const (
	maxRows = 100_000
	// maxRowBytes limits a result, which is sent twice, as structured content and as text. It keeps messages below 16 MiB, the limit of
	// clients that use the official Go SDK.
	maxRowBytes = 6 << 20
)

// encodeRows encodes rows as a JSON list of objects whose keys are in the order of the columns. A result that is too large is an error; it
// is never truncated.
func encodeRows(rows *sql.Rows) (json.RawMessage, error) {
	names, err := rows.Columns()
	if err != nil {
		return nil, fmt.Errorf("read the column names: %w", err)
	}
	keys := columnKeys(names)
	values, targets := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		targets[i] = &values[i]
	}
	out := json.RawMessage("[")
	count := 0
	for ; rows.Next(); count++ {
		if count == maxRows {
			return nil, fmt.Errorf("the result has more than %d rows: aggregate it, or page with LIMIT and OFFSET", maxRows)
		}
		if err := rows.Scan(targets...); err != nil {
			return nil, fmt.Errorf("read row %d: %w", count+1, err)
		}
		if count > 0 {
			out = append(out, ',')
		}
		for i, value := range values {
			text, err := encodeValue(value)
			if err != nil {
				return nil, fmt.Errorf("row %d, column %q: %w", count+1, names[i], err)
			}
			out = append(append(out, keys[i]...), text...)
		}
		out = append(out, '}')
		if len(out) > maxRowBytes {
			return nil, fmt.Errorf("the result is larger than %d MiB after %d rows: select fewer columns, aggregate it, or "+
				"page with LIMIT and OFFSET", maxRowBytes>>20, count+1)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return append(out, ']'), nil
}

// columnKeys returns the text before each value: {"first": and ,"second": and so on. A second column with the same name becomes name_2,
// because keys of an object must be unique.
func columnKeys(names []string) []string {
	taken := map[string]bool{}
	keys := make([]string, len(names))
	for i, name := range names {
		unique := name
		for n := 2; taken[unique]; n++ {
			unique = name + "_" + strconv.Itoa(n)
		}
		taken[unique] = true
		before := ","
		if i == 0 {
			before = "{"
		}
		key, _ := json.Marshal(unique) // a string can always be encoded
		keys[i] = before + string(key) + ":"
	}
	return keys
}

// encodeValue encodes a value from SQLite. An infinite number becomes null, because JSON cannot represent it.
func encodeValue(value any) ([]byte, error) {
	if f, ok := value.(float64); ok && math.IsInf(f, 0) { // for example 9e999; SQLite has no NaN
		return []byte("null"), nil
	}
	return json.Marshal(value)
}
