package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// transferred are the tables that Transfer copies, with the columns of their keys. The contents of the other tables follow from these tables, or describe
// processes that use the store.
var transferred = []table{
	{name: "sessions", key: []string{"num"}},
	{name: "tasks", key: []string{"num"}},
	{name: "steps", key: []string{"task", "seq"}},
	{name: "events", key: []string{"task", "id"}},
	{name: "idempotency", key: []string{"user", "key"}},
	{name: "webhooks", key: []string{"num"}},
	{name: "schedules", key: []string{"num"}},
	{name: "runs", key: []string{"num"}},
	{name: "journal", key: []string{"run", "seq"}, rows: "SELECT * FROM journal WHERE EXISTS (SELECT 1 FROM runs WHERE num = run)"},
	{name: "blob_refs", key: []string{"run", "seq", "field"}, rows: `SELECT r.run, r.seq, r.field, b.hash, b.data FROM blob_refs r
		JOIN blobs b ON b.id = r.blob WHERE EXISTS (SELECT 1 FROM runs WHERE num = r.run)`},
	{name: "approvals", key: []string{"num"}},
	{name: "doubts", key: []string{"num"}},
	{name: "keys", key: []string{"num"}},
	{name: "vaults", key: []string{"num"}},
	{name: "tokens", key: []string{"num"}},
	{name: "pins", key: []string{"server", "tool"}},
	{name: reviews, key: []string{"last"}},
	{name: "counts", key: []string{"num"}},
	{name: "credentials", key: []string{"server", "user"}},
	{name: "confirmations", key: []string{"subject"}},
	{name: "skills", key: []string{"user", "name"}},
	{name: "skill_versions", key: []string{"user", "name", "num"}},
	{name: "skill_shares", key: []string{"owner", "name", "grantee"}},
	{name: "skill_uses", key: []string{"user", "name"}},
	{name: "task_programs", key: []string{"user", "key"}},
	{name: "skill_accepted", key: []string{"user", "owner", "name"}},
	{name: "usage", key: []string{"span", "slot", "kind", "owner", "server", "name"}},
}

// reviews is the only transferred table that has a row in a new store.
const reviews = "reviews"

// Maximum numbers of rows and bytes that one transaction of Transfer copies.
const (
	transferRows  = 500
	transferBytes = 8 << 20
)

// unfinished is the table that a store has while it is the target of an unfinished transfer.
const unfinished = "unfinished_transfer"

type table struct {
	name string
	key  []string
	// rows selects the rows to copy, if these are not the rows of the table. Rows of runs that a purge has deleted are not copied. A blob is copied with
	// each reference to it, because the two databases do not store it equally often.
	rows string
}

// from is the table, or its rows, as a part of a statement.
func (t table) from() string {
	if t.rows == "" {
		return t.name
	}
	return "(" + t.rows + ") t"
}

// Transferred describes a table that has been copied and compared.
type Transferred struct {
	Table  string `json:"table"`
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hash of all values, in the order of the key
	// Replaced is the number of texts in which U+FFFD stands for what the target cannot store: U+0000 and bytes that are not UTF-8.
	Replaced int64 `json:"replaced,omitempty"`
}

// TransferOptions are options of a transfer. The zero value is ready to use.
type TransferOptions struct {
	Options
	// Step, if not nil, is called after each transaction with the name of a table and the number of rows that this table has in the target.
	Step func(table string, rows int64)
	rows int // maximum number of rows of a transaction; 0 means transferRows
}

// Transfer copies a store that no other process uses into a new one, which may be in another database, and compares the two afterwards. If it is
// interrupted, the target cannot be opened, and another call with the same arguments continues. If the source does not exist, the error wraps
// fs.ErrNotExist.
func Transfer(ctx context.Context, from, to string, o TransferOptions) (tables []Transferred, err error) {
	o.transfer = true
	if o.rows == 0 {
		o.rows = transferRows
	}
	if same(from, to) {
		return nil, errors.New("the source is the target")
	}
	if err := exists(ctx, from); err != nil {
		return nil, err
	}
	source, err := openAlone(ctx, from, o.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if _, half, err := source.transferring(ctx); err != nil || half {
		return nil, errors.Join(err, unfinishedError(half, source.path))
	}
	target, err := openAlone(ctx, to, o.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if err := target.beginTransfer(ctx, source.path); err != nil {
		return nil, fmt.Errorf("copy into %s: %w", target.path, err)
	}
	for _, t := range transferred {
		if err := t.transfer(ctx, source, target, &o); err != nil {
			return nil, fmt.Errorf("copy table %s: %w", t.name, err)
		}
	}
	var differ []string
	for _, t := range transferred {
		found, equal, err := t.compare(ctx, source, target, &o)
		if err != nil {
			return nil, fmt.Errorf("compare table %s: %w", t.name, err)
		}
		if !equal {
			differ = append(differ, t.name)
		}
		tables = append(tables, found)
	}
	if len(differ) > 0 {
		return nil, fmt.Errorf("the copy in %s differs in %s: another process has changed one of the stores meanwhile; delete the copy and begin again",
			target.path, strings.Join(differ, ", "))
	}
	return tables, target.endTransfer(ctx)
}

// same reports whether two URLs name one store.
func same(a, b string) bool {
	if isPostgres(a) || isPostgres(b) {
		return a == b
	}
	from, err := filePath(a)
	to, other := filePath(b)
	return err == nil && other == nil && from == to
}

// exists returns an error that wraps fs.ErrNotExist if there is no store.
func exists(ctx context.Context, url string) error {
	if !isPostgres(url) {
		path, err := filePath(url)
		if err == nil {
			_, err = os.Stat(path)
		}
		return err
	}
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("open store %s: %w", address(url), err)
	}
	defer c.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing was written
	var found bool
	if err := c.QueryRow(ctx, "SELECT to_regclass('schema_version') IS NOT NULL").Scan(&found); err == nil && !found {
		return fmt.Errorf("open store %s: it has no tables of the harness: %w", address(url), fs.ErrNotExist)
	}
	return err
}

// openAlone opens a store that no other process uses, and locks its queue. The lock keeps other processes from working the queue of a file, but not
// of a server.
func openAlone(ctx context.Context, url string, o Options) (s *Store, err error) {
	if s, err = Open(ctx, url, o); err != nil {
		return nil, err
	}
	user, err := s.database.user(ctx)
	if err == nil && user != "" {
		err = fmt.Errorf("%s uses the store %s: end it first", user, s.path)
	}
	if err == nil {
		_, err = s.LockQueue(ctx) // Close releases it.
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// transferring returns the source of an unfinished transfer into a store. half reports whether there is such a transfer.
func (s *Store) transferring(ctx context.Context) (source string, half bool, err error) {
	query := "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = ?)"
	if s.statements.text != nil {
		query = "SELECT to_regclass(?::text) IS NOT NULL"
	}
	if half, err = one(ctx, s, nil, value[bool], query, unfinished); err == nil && half {
		source, err = one(ctx, s, nil, value[string], "SELECT source FROM "+unfinished)
	}
	return source, half, err
}

func unfinishedError(half bool, path string) error {
	if !half {
		return nil
	}
	return fmt.Errorf("a copy into %s has not finished: the same harness store copy continues it", path)
}

// beginTransfer makes a new store the target of a transfer.
func (s *Store) beginTransfer(ctx context.Context, source string) error {
	earlier, half, err := s.transferring(ctx)
	switch {
	case err != nil:
		return err
	case half && earlier != source:
		return fmt.Errorf("an unfinished copy of %s is in it", earlier)
	case half:
		return nil
	}
	for _, t := range transferred {
		found, err := one(ctx, s, nil, value[bool], "SELECT EXISTS (SELECT 1 FROM "+t.name+")")
		if err == nil && found && t.name != reviews {
			err = fmt.Errorf("it is not empty: it has %s", t.name)
		}
		if err != nil {
			return err
		}
	}
	return s.write(ctx, 0, func(c *conn) {
		c.script("CREATE TABLE " + unfinished + " (source TEXT NOT NULL)")
		c.exec("INSERT INTO "+unfinished+" (source) VALUES (?)", source)
		c.exec("DELETE FROM " + reviews)
	})
}

// endTransfer makes the target of a transfer an ordinary store.
func (s *Store) endTransfer(ctx context.Context) error {
	return s.write(ctx, 0, func(c *conn) {
		if c.dialect.number != nil {
			for _, t := range transferred {
				if t.key[0] == "num" || t.key[0] == "id" {
					c.dialect.number(c, t.name, t.key[0])
				}
			}
		}
		c.script("DROP TABLE " + unfinished)
	})
}

// transfer copies the rows of a table that the target does not have yet: those after the last key in the target.
func (t table) transfer(ctx context.Context, source, target *Store, o *TransferOptions) error {
	columns, err := t.columns(ctx, source, target)
	if err != nil {
		return err
	}
	var names, marks []string
	for _, c := range columns {
		names, marks = append(names, c.name), append(marks, "?")
	}
	insert := "INSERT INTO " + t.name + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(marks, ", ") + ")"
	var last []any
	var rows int64
	if rows, err = one(ctx, target, nil, value[int64], "SELECT count(*) FROM "+t.name); err != nil {
		return err
	}
	if rows > 0 {
		if last, err = t.last(ctx, target); err != nil {
			return err
		}
	}
	for {
		some, bytes, err := t.batch(ctx, source, columns, last, o.rows)
		if err != nil || len(some) == 0 {
			return err
		}
		last = t.keyOf(columns, some[len(some)-1])
		if t.key[0] == "run" {
			for _, row := range some {
				if err := target.makeDay(ctx, row[t.at(columns, "run")].(int64)); err != nil {
					return err
				}
			}
		}
		if err := target.write(ctx, bytes, func(c *conn) {
			for _, row := range some {
				if t.name == "blob_refs" {
					data := row[t.at(columns, "data")].([]byte)
					b := blob{field: row[t.at(columns, "field")].(string), data: data, hash: sha256.Sum256(data)}
					target.insertBlob(c, row[t.at(columns, "run")].(int64), row[t.at(columns, "seq")].(int64), &b)
				} else {
					c.exec(insert, slices.Clone(row)...) // exec changes its arguments
				}
			}
			if t.name == "tasks" {
				for _, row := range some {
					target.addWords(c, row[t.at(columns, "num")].(int64), row[t.at(columns, "user")].(string), taskText(row[t.at(columns, "request")]))
				}
			}
		}); err != nil {
			return err
		}
		rows += int64(len(some))
		if o.Step != nil {
			o.Step(t.name, rows)
		}
	}
}

// taskText returns the text of a task's request, "" if the request cannot be read.
func taskText(stored any) string {
	var asked request
	if (object{&asked}).Scan(stored) != nil {
		return ""
	}
	return asked.Task
}

// kind is the type of a column, in terms that fit both databases.
type kind int

const (
	integerKind kind = iota
	textKind
	bytesKind
)

type column struct {
	name string
	kind kind
}

// columns returns the columns that a table has in both stores. If the kinds of a column differ, the column is copied as bytes.
func (t table) columns(ctx context.Context, a, b *Store) ([]column, error) {
	all, err := a.columns(ctx, t.from())
	if err != nil {
		return nil, err
	}
	others, err := b.columns(ctx, t.from())
	if err != nil {
		return nil, err
	}
	for i := range all {
		switch {
		case len(others) != len(all) || others[i].name != all[i].name:
			return nil, errors.New("its columns differ")
		case others[i].kind != all[i].kind:
			all[i].kind = bytesKind
		}
	}
	return all, nil
}

// columns returns the columns of a table, or of the rows of a table, by name.
func (s *Store) columns(ctx context.Context, table string) (all []column, err error) {
	rows, err := s.read.QueryContext(ctx, "SELECT * FROM "+table+" LIMIT 0")
	if err != nil {
		return nil, explain(err)
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	for _, t := range types {
		c := column{name: t.Name()}
		switch t.DatabaseTypeName() {
		case "INTEGER", "INT8":
		case "TEXT":
			c.kind = textKind
		case "BLOB", "BYTEA":
			c.kind = bytesKind
		default:
			return nil, fmt.Errorf("column %s has the type %q", c.name, t.DatabaseTypeName())
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b column) int { return strings.Compare(a.name, b.name) })
	return all, rows.Err()
}

// convert converts a value to the Go type for columns of this kind. The second result is false if the value is of another kind.
func (k kind) convert(v any) (any, bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case int64:
		return v, k == integerKind
	case string:
		if k == bytesKind {
			return []byte(v), true
		}
		return v, k == textKind
	case []byte:
		if k == textKind {
			return string(v), true
		}
		return slices.Clone(v), k == bytesKind
	}
	return nil, false
}

func (t table) at(columns []column, name string) int {
	return slices.IndexFunc(columns, func(c column) bool { return c.name == name })
}

func (t table) keyOf(columns []column, row []any) (key []any) {
	for _, name := range t.key {
		key = append(key, row[t.at(columns, name)])
	}
	return key
}

// last returns the greatest key in a table. The table must have a row.
func (t table) last(ctx context.Context, s *Store) (key []any, err error) {
	key = make([]any, len(t.key))
	err = s.each(ctx, "SELECT "+strings.Join(t.key, ", ")+" FROM "+t.name+" ORDER BY "+strings.Join(t.key, " DESC, ")+" DESC LIMIT 1", nil, func(row scanner) error {
		return row.Scan(pointers(key)...)
	})
	return key, err
}

func pointers(values []any) (all []any) {
	for i := range values {
		all = append(all, &values[i])
	}
	return all
}

// batch returns the first rows after a key, in the order of the key: at most limit rows, and fewer if the rows are large.
func (t table) batch(ctx context.Context, s *Store, columns []column, after []any, limit int) (rows [][]any, bytes int, err error) {
	var names []string
	for _, c := range columns {
		names = append(names, c.name)
	}
	key := strings.Join(t.key, ", ")
	query, args := "SELECT "+strings.Join(names, ", ")+" FROM "+t.from(), []any{}
	if after != nil {
		query += " WHERE (" + key + ") > (?" + strings.Repeat(", ?", len(t.key)-1) + ")"
		args = append(args, after...)
	}
	err = s.each(ctx, query+" ORDER BY "+key+" LIMIT ?", append(args, limit), func(r scanner) error {
		if bytes >= transferBytes {
			return errStop
		}
		row := make([]any, len(columns))
		if err := r.Scan(pointers(row)...); err != nil {
			return err
		}
		for i, c := range columns {
			v, ok := c.kind.convert(row[i])
			if !ok {
				return fmt.Errorf("column %s has a %T", c.name, row[i])
			}
			row[i] = v
			bytes += sizeOf(v)
		}
		rows = append(rows, row)
		return nil
	})
	return rows, bytes, err
}

func sizeOf(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return 8
}

// compare describes a table of the source, and reports whether the target has the same rows.
func (t table) compare(ctx context.Context, source, target *Store, o *TransferOptions) (found Transferred, equal bool, err error) {
	columns, err := t.columns(ctx, source, target)
	if err != nil {
		return found, false, err
	}
	if found, err = t.digest(ctx, source, columns, target.statements.text, o); err != nil {
		return found, false, err
	}
	copied, err := t.digest(ctx, target, columns, nil, o)
	return found, found.SHA256 == copied.SHA256, err
}

// digest returns the number of rows of a table, and the hash of their values. If stored is not nil, stored converts each text before the text is
// hashed.
func (t table) digest(ctx context.Context, s *Store, columns []column, stored func(string) string, o *TransferOptions) (d Transferred, err error) {
	d.Table = t.name
	sum := sha256.New()
	for _, c := range columns {
		add(sum, c.name)
	}
	var last []any
	for {
		some, bytes, err := t.batch(ctx, s, columns, last, o.rows)
		if err != nil {
			return d, err
		}
		if len(some) == 0 {
			d.SHA256 = hex.EncodeToString(sum.Sum(nil))
			return d, nil
		}
		last = t.keyOf(columns, some[len(some)-1])
		d.Rows, d.Bytes = d.Rows+int64(len(some)), d.Bytes+int64(bytes)
		for _, row := range some {
			for _, v := range row {
				if text, ok := v.(string); ok && stored != nil {
					if v = stored(text); v != text {
						d.Replaced++
					}
				}
				add(sum, v)
			}
		}
	}
}

// add adds a value to a hash: its type, its length and its bytes.
func add(sum hash.Hash, v any) {
	var head [9]byte
	var data []byte
	switch v := v.(type) {
	case nil:
		head[0] = 'n'
	case int64:
		head[0] = 'i'
		binary.BigEndian.PutUint64(head[1:], uint64(v))
	case string:
		head[0], data = 't', []byte(v)
	case []byte:
		head[0], data = 'b', v
	}
	if data != nil {
		binary.BigEndian.PutUint64(head[1:], uint64(len(data)))
	}
	sum.Write(head[:])
	sum.Write(data)
}
