package sqlstore

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// explain adds advice to an error of SQLite or of a connection pool. It returns any other error unchanged. The caller adds the name of the file.
func explain(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && strings.Contains(e.Message, "unsupported startup parameter") {
		return fmt.Errorf("a pool of connections, such as PgBouncer, is in between: name the server itself in store.url (%w)", err)
	}
	var advice string
	switch code(err) & 0xff {
	case sqlite3.SQLITE_FULL:
		advice = "the disk is full: free some space; what was stored before is intact"
	case sqlite3.SQLITE_IOERR:
		advice = "the disk failed or is full: check it; what was stored before is intact"
	case sqlite3.SQLITE_NOTADB:
		advice = "it is not a SQLite database: move it away, or name another file in store.url"
	case sqlite3.SQLITE_CORRUPT:
		advice = "it is damaged: restore it from a backup, or move it away to start anew"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		advice = "it cannot be written: check the permissions of the file and its directory, or name another file in store.url"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		advice = "another process has been writing to it for too long: end that process, or try again"
	default:
		return err
	}
	return fmt.Errorf("%s (%w)", advice, err)
}

// isLost reports whether the connection to the database is broken.
func isLost(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || isPostgresLost(err)
}

func code(err error) int {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return 0
	}
	return se.Code()
}

func isBusy(err error) bool { return code(err)&0xff == sqlite3.SQLITE_BUSY || isLost(err) }

func isUnique(err error) bool {
	return code(err) == sqlite3.SQLITE_CONSTRAINT_UNIQUE || postgresCode(err) == uniqueViolation
}

func isFull(err error) bool {
	primary := code(err) & 0xff
	return primary == sqlite3.SQLITE_FULL || primary == sqlite3.SQLITE_IOERR
}
