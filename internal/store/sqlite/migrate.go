package sqlite

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
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
	version := schemaVersion(c)
	if err := c.takeErr(); err != nil || version == len(entries) {
		return err
	}
	return c.transaction(func() {
		version := schemaVersion(c) // again: another process may have been first
		if version > len(entries) {
			c.fail(fmt.Errorf("its schema has version %d, this harness knows %d: use a newer harness, or another file in store.url",
				version, len(entries)))
			return
		}
		if version == 0 {
			c.script("CREATE TABLE schema_version (version INTEGER NOT NULL); INSERT INTO schema_version VALUES (0)")
		}
		for _, e := range entries[version:] {
			text, err := migrations.ReadFile("migrations/" + e.Name())
			c.fail(err)
			if c.script(string(text)); c.err != nil {
				c.err = fmt.Errorf("migration %s: %w", e.Name(), c.err)
				return
			}
		}
		c.exec("UPDATE schema_version SET version = ?", len(entries))
	})
}

// schemaVersion is 0 for an empty database.
func schemaVersion(c *conn) int {
	var tables, ours, version int64
	c.row(`SELECT count(*), count(CASE WHEN name = 'schema_version' THEN 1 END)
		FROM sqlite_master WHERE type = 'table'`, nil, &tables, &ours)
	if tables > 0 && (ours == 0 || !c.row("SELECT version FROM schema_version", nil, &version)) {
		c.fail(errors.New("it is the database of another program: name another file in store.url"))
	}
	return int(version)
}
