package sqlite

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// A migration is a file NNNN_what.sql. Numbers have no gaps; a released file is never changed.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema to the newest version, in one transaction that other processes wait for.
func migrate(c *conn) error {
	entries, err := fs.ReadDir(migrations, "migrations") // sorted
	if err != nil {
		return err
	}
	version, err := schemaVersion(c)
	if err != nil || version == len(entries) {
		return err
	}
	return c.transaction(func() error {
		version, err := schemaVersion(c) // again: another process may have been first
		if err != nil {
			return err
		}
		if version > len(entries) {
			return fmt.Errorf("its schema has version %d, this harness knows %d: use a newer harness, or another file in store.url",
				version, len(entries))
		}
		if version == 0 {
			if err := c.script(`CREATE TABLE schema_version (version INTEGER NOT NULL);
				INSERT INTO schema_version VALUES (0)`); err != nil {
				return err
			}
		}
		for _, e := range entries[version:] {
			text, err := migrations.ReadFile("migrations/" + e.Name())
			if err != nil {
				return err
			}
			number, _, _ := strings.Cut(e.Name(), "_")
			if n, err := strconv.Atoi(number); err != nil || n != version+1 {
				return fmt.Errorf("migration %s is not number %d", e.Name(), version+1)
			}
			if err := c.script(string(text)); err != nil {
				return fmt.Errorf("migration %s: %w", e.Name(), err)
			}
			version++
		}
		_, err = c.exec("UPDATE schema_version SET version = ?", version)
		return err
	})
}

var errForeign = errors.New("it is the database of another program: name another file in store.url")

// schemaVersion is 0 for an empty database.
func schemaVersion(c *conn) (int, error) {
	var tables, ours int64
	if _, err := c.row(`SELECT count(*), count(CASE WHEN name = 'schema_version' THEN 1 END)
		FROM sqlite_master WHERE type = 'table'`, nil, &tables, &ours); err != nil {
		return 0, err
	}
	switch {
	case tables == 0:
		return 0, nil
	case ours == 0:
		return 0, errForeign
	}
	var version int64
	found, err := c.row("SELECT version FROM schema_version", nil, &version)
	if err == nil && !found {
		err = errForeign
	}
	return int(version), err
}
