package sqlstore

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// pipeline sends statements to a server. It caches the translated texts; pgx prepares each text once for each connection.
type pipeline map[string]string

// onServer calls f with the connection to a server.
func (c *conn) onServer(f func(server *pgx.Conn)) error {
	if c.only == nil {
		return sql.ErrConnDone
	}
	return c.only.Raw(func(connection any) error {
		f(connection.(*stdlib.Conn).Conn())
		return nil
	})
}

// send sends statements in one round trip, and returns the command tag of the last one. The server executes no statement after one that fails.
func (p pipeline) send(c *conn, all []statement) (tag string, err error) {
	batch := &pgx.Batch{QueuedQueries: make([]*pgx.QueuedQuery, 0, len(all))}
	for _, s := range all {
		if p[s.query] == "" {
			p[s.query] = translate(s.query)
		}
		batch.Queue(p[s.query], c.statements.stored(s.args)...)
	}
	if failed := c.onServer(func(server *pgx.Conn) { tag, err = receive(server.SendBatch(context.Background(), batch), all) }); failed != nil {
		err = failed
	}
	c.lost = c.lost || isLost(err)
	return tag, err
}

// receive calls the functions of statements with their results.
func receive(results pgx.BatchResults, all []statement) (tag string, err error) {
	for _, s := range all {
		rows, _ := results.Query() // rows.Err returns the error, too
		for err == nil && rows.Next() {
			if s.row != nil {
				err = s.row(rows)
			}
		}
		rows.Close()
		if err == nil {
			err = rows.Err()
		}
		if err != nil {
			break
		}
		if s.done != nil {
			s.done(rows.CommandTag().RowsAffected())
		}
		tag = rows.CommandTag().String()
	}
	if failed := results.Close(); err == nil {
		err = failed
	}
	return tag, err
}
