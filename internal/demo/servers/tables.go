package servers

import (
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/demo/dataset"
)

// table defines a table of the demo database and how its rows are made from the generated data.
type table struct {
	name, description string
	columns           []column
	indexed           []string
	rows              func(*dataset.Data) [][]any // rows in the order of columns
}

type column struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	PrimaryKey bool   `json:"primaryKey"`
	References string `json:"references,omitempty"` // table.column
}

// tables returns the tables in an order in which each refers only to earlier ones.
func tables() []table {
	return []table{
		{
			name: "products", description: "The price list.",
			columns: []column{
				{Name: "name", Type: "TEXT", PrimaryKey: true},
				{Name: "category", Type: "TEXT"},
				{Name: "list_price", Type: "REAL"},
			},
			rows: func(d *dataset.Data) [][]any {
				return rowsOf(d.Products, func(p dataset.Product) []any { return []any{p.Name, p.Category, p.Price} })
			},
		},
		{
			name:        "customers",
			description: "Customers of the company. How to reach them is in the CRM, under the same id.",
			columns: []column{
				{Name: "id", Type: "INTEGER", PrimaryKey: true},
				{Name: "company", Type: "TEXT"},
				{Name: "segment", Type: "TEXT"},
				{Name: "region", Type: "TEXT"},
				{Name: "owner", Type: "TEXT"},
				{Name: "since", Type: "TEXT"},
			},
			rows: func(d *dataset.Data) [][]any {
				return rowsOf(d.Customers, func(c dataset.Customer) []any {
					return []any{c.ID, c.Company, c.Segment, c.Region, c.Owner, c.Since}
				})
			},
		},
		{
			name:        "sales",
			description: "Order lines from " + dataset.FirstDay + " to " + dataset.LastDay + "; amount is in US dollars.",
			columns: []column{
				{Name: "id", Type: "INTEGER", PrimaryKey: true},
				{Name: "date", Type: "TEXT"},
				{Name: "customer_id", Type: "INTEGER", References: "customers.id"},
				{Name: "product", Type: "TEXT", References: "products.name"},
				{Name: "region", Type: "TEXT"},
				{Name: "quantity", Type: "INTEGER"},
				{Name: "amount", Type: "REAL"},
			},
			indexed: []string{"date", "customer_id"},
			rows: func(d *dataset.Data) [][]any {
				return rowsOf(d.Sales, func(s dataset.Sale) []any {
					return []any{s.ID, s.Date, s.CustomerID, s.Product, s.Region, s.Quantity, s.Amount}
				})
			},
		},
	}
}

func rowsOf[T any](list []T, row func(T) []any) [][]any {
	rows := make([][]any, len(list))
	for i, v := range list {
		rows[i] = row(v)
	}
	return rows
}

func findTable(name string) (table, bool) {
	for _, t := range tables() {
		if strings.EqualFold(t.name, name) {
			return t, true
		}
	}
	return table{}, false
}

func tableNames() string {
	var names []string
	for _, t := range tables() {
		names = append(names, t.name)
	}
	return strings.Join(names, ", ")
}

func (t table) create() string {
	parts := make([]string, len(t.columns))
	for i, c := range t.columns {
		parts[i] = c.Name + " " + c.Type
		if c.PrimaryKey {
			parts[i] += " PRIMARY KEY"
		}
		parts[i] += " NOT NULL"
		if to, column, ok := strings.Cut(c.References, "."); ok {
			parts[i] += " REFERENCES " + to + "(" + column + ")"
		}
	}
	return "CREATE TABLE " + t.name + "(" + strings.Join(parts, ", ") + ") STRICT"
}

// load returns the statement that inserts the table's rows from a JSON list of lists.
func (t table) load() string {
	parts := make([]string, len(t.columns))
	for i := range t.columns {
		parts[i] = "value->>" + strconv.Itoa(i)
	}
	return "INSERT INTO " + t.name + " SELECT " + strings.Join(parts, ", ") + " FROM json_each(?)"
}
