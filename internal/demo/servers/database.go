package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/demo/dataset"
	"mcp-code-exec-harness/internal/demo/mcptool"
)

const databaseInstructions = `A sales database of a made-up company, SQLite dialect, read-only.
Start with list_tables and describe_table. Dates are texts, YYYY-MM-DD. Amounts are in US dollars.
query returns every row it finds, up to 100,000: aggregate in SQL where you can.`

func (d *database) server() *mcp.Server {
	s := mcptool.NewServer("database", "Sales database", databaseInstructions)
	d.addQuery(s)
	mcptool.Add(s, mcptool.Definition{
		Name: "list_tables", Title: "List tables",
		Description: "List the tables of the sales database with their number of rows and what they hold.",
		Input:       `{"type":"object","properties":{},"additionalProperties":false}`,
		Output: `{"type":"object","properties":{"tables":{"type":"array","items":{"type":"object","properties":{
			"name":{"type":"string"},"rows":{"type":"integer"},"description":{"type":"string"}},
			"required":["name","rows","description"],"additionalProperties":false}}},
			"required":["tables"],"additionalProperties":false}`,
		Hints: mcptool.Reads(),
	}, func(ctx context.Context, _ struct{}) (any, error) { return d.listTables(ctx) })
	mcptool.Add(s, mcptool.Definition{
		Name: "describe_table", Title: "Describe a table",
		Description: "Columns of one table: name, SQL type, key and what it refers to, with two sample rows.",
		Input: `{"type":"object","properties":{"table":{"type":"string","description":"Name of the table, e.g. sales"}},
			"required":["table"],"additionalProperties":false}`,
		Output: `{"type":"object","properties":{"name":{"type":"string"},"description":{"type":"string"},
			"rows":{"type":"integer"},"columns":{"type":"array","items":{"type":"object","properties":{
			"name":{"type":"string"},"type":{"type":"string"},"primaryKey":{"type":"boolean"},
			"references":{"type":"string","description":"table.column"}},
			"required":["name","type","primaryKey"],"additionalProperties":false}},
			"samples":{"type":"array","items":{"type":"object"}}},
			"required":["name","description","rows","columns","samples"],"additionalProperties":false}`,
		Hints: mcptool.Reads(),
	}, func(ctx context.Context, in tableInput) (any, error) { return d.describeTable(ctx, in.Table) })
	return s
}

// addQuery adds the tool query, which builds its own results. Rows are encoded as they are read. The text content is the list of rows; the
// structured content must be an object and is {"result": rows}.
func (d *database) addQuery(s *mcp.Server) {
	type input struct {
		Query     string `json:"query"`
		Params    []any  `json:"params"`
		TimeoutMS int    `json:"timeout_ms"`
	}
	mcptool.Add(s, mcptool.Definition{
		Name: "query", Title: "Run a SQL query", Hints: mcptool.Reads(),
		Description: "Run one read-only SQL statement (SQLite dialect: SELECT, WITH, VALUES or EXPLAIN) against the sales " +
			"database and return its rows as objects keyed by column name.",
		Input: `{"type":"object","properties":{
			"query":{"type":"string","minLength":1,"description":"One SQL statement; ? stands for a parameter"},
			"params":{"type":"array","items":{"type":["string","number","boolean","null"]},
				"description":"Values for the ? of the query, in order"},
			"timeout_ms":{"type":"integer","minimum":1,"maximum":60000,"default":10000,
				"description":"Stop the query after this many milliseconds"}},
			"required":["query"],"additionalProperties":false}`,
		Output: `{"type":"object","properties":{"result":{"type":"array","items":{"type":"object"},
			"description":"One object for each row"}},"required":["result"],"additionalProperties":false}`,
	}, func(ctx context.Context, in input) (any, error) {
		rows, err := d.query(ctx, in.Query, in.Params, time.Duration(in.TimeoutMS)*time.Millisecond)
		if err != nil {
			return nil, err
		}
		return mcptool.Answer(slices.Concat([]byte(`{"result":`), rows, []byte("}")), string(rows)), nil
	})
}

// query runs one statement for at most timeout and returns its rows as a JSON list.
func (d *database) query(ctx context.Context, text string, params []any, timeout time.Duration) (json.RawMessage, error) {
	if err := checkOneStatement(text); err != nil {
		return nil, err
	}
	release, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rows, err := d.rows(ctx, text, params)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("the query was stopped after %v: narrow it with WHERE or LIMIT, or raise timeout_ms", timeout)
	case err != nil:
		return nil, d.explain(err)
	}
	return rows, nil
}

func (d *database) rows(ctx context.Context, text string, params []any) (json.RawMessage, error) {
	for i, p := range params {
		// JSON has only one number type; SQL needs an integer for a whole number.
		if f, ok := p.(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			params[i] = int64(f)
		}
	}
	rows, err := d.conn.QueryContext(ctx, text, params...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return encodeRows(rows)
}

type tableInput struct {
	Table string `json:"table"`
}

type tableInfo struct {
	Name        string `json:"name"`
	Rows        int    `json:"rows"`
	Description string `json:"description"`
}

func (d *database) listTables(ctx context.Context) (any, error) {
	release, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	list := make([]tableInfo, 0, len(tables()))
	for _, t := range tables() {
		n, err := d.count(ctx, t.name)
		if err != nil {
			return nil, err
		}
		list = append(list, tableInfo{t.name, n, t.description})
	}
	return map[string]any{"tables": list}, nil
}

func (d *database) count(ctx context.Context, table string) (int, error) {
	var n int
	if err := d.conn.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the rows of %s: %w", table, err)
	}
	return n, nil
}

func (d *database) describeTable(ctx context.Context, name string) (any, error) {
	t, ok := findTable(name)
	if !ok {
		return nil, fmt.Errorf("there is no table %q; the tables are %s", name, tableNames())
	}
	release, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	n, err := d.count(ctx, t.name)
	if err != nil {
		return nil, err
	}
	samples, err := d.rows(ctx, "SELECT * FROM "+t.name+" LIMIT 2", nil)
	if err != nil {
		return nil, fmt.Errorf("read samples of %s: %w", t.name, err)
	}
	return struct {
		tableInfo
		Columns []column        `json:"columns"`
		Samples json.RawMessage `json:"samples"`
	}{tableInfo{t.name, n, t.description}, t.columns, samples}, nil
}

// fill makes the tables and loads the generated data into them.
func (d *database) fill(ctx context.Context) error {
	for _, t := range tables() {
		if _, err := d.conn.ExecContext(ctx, t.create()); err != nil {
			return fmt.Errorf("create table %s: %w", t.name, err)
		}
		// One statement that reads a JSON document is several times faster than one insert per row.
		text, err := json.Marshal(t.rows(dataset.Load()))
		if err != nil {
			return fmt.Errorf("encode table %s: %w", t.name, err)
		}
		if _, err := d.conn.ExecContext(ctx, t.load(), string(text)); err != nil {
			return fmt.Errorf("fill table %s: %w", t.name, err)
		}
		for _, c := range t.indexed {
			if _, err := d.conn.ExecContext(ctx, "CREATE INDEX "+t.name+"_"+c+" ON "+t.name+"("+c+")"); err != nil {
				return fmt.Errorf("index %s.%s: %w", t.name, c, err)
			}
		}
	}
	return nil
}
