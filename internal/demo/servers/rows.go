package servers

import (
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

const (
	maxRows = 100_000
	// maxRowBytes keeps a result, which is sent as structured content and again as text, under the 16 MiB that clients
	// made with the official Go SDK accept in one message.
	maxRowBytes = 6 << 20
)

// encodeRows writes rows as a JSON list of objects whose keys are in the order of the columns. A result that is too
// large is an error, never cut off in silence.
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
			out = append(out, keys[i]...)
			if out, err = appendValue(out, value); err != nil {
				return nil, fmt.Errorf("row %d, column %q: %w", count+1, names[i], err)
			}
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

// columnKeys gives what precedes each value: {"first": and ,"second": and so on. The second column of a name becomes
// name_2, because an object has room for one.
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
		keys[i] = before + string(appendString(nil, unique)) + ":"
	}
	return keys
}

func appendValue(out []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(out, "null"...), nil
	case int64:
		return strconv.AppendInt(out, v, 10), nil
	case float64:
		if math.IsInf(v, 0) { // 9e999; SQLite has no NaN
			return append(out, "null"...), nil
		}
		format := byte('f')
		if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) { // as JSON.stringify does
			format = 'e'
		}
		return strconv.AppendFloat(out, v, format, -1, 64), nil
	case string:
		return appendString(out, v), nil
	case []byte:
		return appendString(out, base64.StdEncoding.EncodeToString(v)), nil
	}
	return nil, fmt.Errorf("a value of type %T has no JSON form", value)
}

func appendString(out []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			text, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string always has a JSON form
			}
			return append(out, text...)
		}
	}
	out = append(out, '"')
	out = append(out, s...)
	return append(out, '"')
}
