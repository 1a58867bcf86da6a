package sqlstore

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// A migration is a file NNNN_what.sql. Numbers have no gaps; a released file is never changed.
//
//go:embed migrations/*.sql
var migrations embed.FS

// Upgrade describes a migration of a store's schema from one version to another.
type Upgrade struct {
	From, To int
	Copy     string // path of the copy made before the migration
}

// migrate brings the schema to the newest version, in one transaction that other processes wait for. It first copies the file, unless the file is
// new. The result is nil for a new file, and if the schema already had the newest version.
func migrate(c *conn, path string, now time.Time) (done *Upgrade, err error) {
	entries, err := fs.ReadDir(migrations, "migrations") // sorted by name
	if err != nil {
		return nil, err
	}
	version := schemaVersion(c)
	if err := c.takeErr(); err != nil || version == len(entries) {
		return nil, err
	}
	err = c.transaction(func() {
		version := schemaVersion(c) // again: another process may have been first
		switch {
		case c.err != nil:
			return
		case version > len(entries):
			c.fail(tooNew(path, version, len(entries)))
			return
		case version > 0 && version < len(entries):
			if user := newFileLease(path).other(); user != "" { // a process of an older harness knows only the old tables
				c.fail(fmt.Errorf("its schema has version %d, and process %s, of an older harness, works with it: end that process, "+
					"and the next command brings it to version %d", version, user, len(entries)))
				return
			}
			copied, err := copyBefore(path, version, now)
			if err != nil {
				c.fail(err)
				return
			}
			done = &Upgrade{version, len(entries), copied}
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
	if err != nil && done != nil { // nothing has changed
		err = errors.Join(err, os.Remove(done.Copy))
		done = nil
	}
	return done, err
}

// schemaVersion returns the version of the schema, 0 for an empty database.
func schemaVersion(c *conn) int {
	var tables, ours, version int64
	c.row(`SELECT count(*), count(CASE WHEN name = 'schema_version' THEN 1 END)
		FROM sqlite_master WHERE type = 'table'`, nil, &tables, &ours)
	if tables > 0 && (ours == 0 || !c.row("SELECT version FROM schema_version", nil, &version)) {
		c.fail(errors.New("it is the database of another program: name another file in store.url"))
	}
	return int(version)
}
