package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mcp-code-exec-harness/internal/approval"
)

const pinsOf = "SELECT tool, approved, bytes, seen FROM pins WHERE server = ?"

// pinsInto returns a function that scans a row of pinsOf into pins.
func pinsInto(pins map[string]approval.Pin) func(scanner) error {
	return func(row scanner) error {
		var tool string
		var p approval.Pin
		err := row.Scan(&tool, &p.Approved, &p.Bytes, &p.Seen)
		pins[tool] = p
		return err
	}
}

// Review compares the definitions that a server lists with the stored ones, and stores what the server lists.
func (s *Store) Review(
	ctx context.Context, server string, mode approval.Quarantine, confirmed approval.Confirmed, listed []approval.Definition,
) (r approval.Reviewed, err error) {
	defer wrap(&err, "review server %q", server)
	pins := map[string]approval.Pin{}
	if err := s.each(ctx, pinsOf, []any{server}, pinsInto(pins)); err != nil {
		return r, err
	}
	if now := approval.Review(mode, confirmed, pins, listed); len(now.Changed) == 0 {
		return now, nil
	}
	texts, bytes := map[string]json.RawMessage{}, 0
	for _, d := range listed {
		if _, first := texts[d.Tool]; first {
			continue
		}
		if texts[d.Tool], err = json.Marshal(d); err != nil {
			return r, err
		}
		bytes += len(texts[d.Tool])
	}
	now, done := s.now(), approval.Reviewed{}
	err = s.write(ctx, bytes, func(c *conn) {
		pins := map[string]approval.Pin{}
		c.each(pinsOf+" /*+ FOR UPDATE */", []any{server}, pinsInto(pins))
		if c.err != nil {
			return
		}
		done = approval.Review(mode, confirmed, pins, listed)
		for tool, is := range done.Changed {
			was := pins[tool]
			if is == (approval.Pin{}) {
				c.exec("DELETE FROM pins WHERE server = ? AND tool = ?", server, tool)
				continue
			}
			if was == (approval.Pin{}) {
				c.exec("INSERT INTO pins (server, tool, since) VALUES (?, ?, ?)", server, tool, now)
			}
			var seenAs any
			if is.Seen != "" && is.Seen != is.Approved {
				seenAs = []byte(texts[tool])
			}
			c.exec(`UPDATE pins SET approved = ?1, bytes = ?2, seen = ?3, seen_as = ?4, since = CASE WHEN seen = ?3 THEN since ELSE ?5 END
				WHERE server = ?6 AND tool = ?7`, is.Approved, is.Bytes, is.Seen, seenAs, now, server, tool)
			if is.Approved != was.Approved {
				c.exec("UPDATE pins SET approved_as = ?, approved_by = '' WHERE server = ? AND tool = ?", []byte(texts[tool]), server, tool)
			}
		}
	})
	if err != nil {
		return r, err
	}
	return done, nil
}

// Reviewed reports whether definitions of a server are stored.
func (s *Store) Reviewed(ctx context.Context, server string) (_ bool, err error) {
	defer wrap(&err, "look for the definitions of server %q", server)
	return one(ctx, s, nil, value[bool], "SELECT EXISTS (SELECT 1 FROM pins WHERE server = ?)", server)
}

// Held lists the held definitions of a server, or of all servers if server is empty.
func (s *Store) Held(ctx context.Context, server string) (_ []approval.Held, err error) {
	defer wrap(&err, "list held definitions")
	const held = "SELECT server, since, coalesce(approved_as, 'null'), seen_as FROM pins INDEXED BY pins_held WHERE seen <> '' AND seen <> approved"
	query, args := held+" ORDER BY server, tool", []any{}
	if server != "" {
		query, args = held+" AND server = ? ORDER BY tool", []any{server}
	}
	return list(ctx, s, func(row scanner) (h approval.Held, err error) {
		var of string
		var since time.Time
		var approved *approval.Definition
		var seen approval.Definition
		if err := row.Scan(&of, instant{&since}, object{&approved}, object{&seen}); err != nil {
			return h, fmt.Errorf("a pin as it is stored: %w", err)
		}
		return approval.NewHeld(of, since, approved, seen), nil
	}, query, args...)
}

// ApproveDefinitions approves held definitions of a server. The parameter by names the person who approves; hashes maps each tool to the hash of its
// definition. If ApproveDefinitions cannot approve all of them, it approves none, and the error wraps approval.ErrNotHeld or approval.ErrTooManyPins.
func (s *Store) ApproveDefinitions(ctx context.Context, server, by string, hashes map[string]string) (err error) {
	defer wrap(&err, "approve definitions of server %q", server)
	now := s.now()
	return s.write(ctx, 0, func(c *conn) {
		pins := map[string]approval.Pin{}
		c.each(pinsOf+" /*+ FOR UPDATE */", []any{server}, pinsInto(pins))
		for tool, hash := range hashes {
			var seen approval.Definition
			if !c.row("SELECT seen_as FROM pins WHERE server = ? AND tool = ? AND seen_as IS NOT NULL", []any{server, tool}, object{&seen}) {
				if c.err == nil {
					c.refuse(approval.ErrNotHeld)
				}
				return
			}
			is, err := approval.Approve(pins, seen)
			if err == nil && is.Approved != hash {
				err = approval.ErrNotHeld
			}
			if err != nil {
				c.refuse(err)
				return
			}
			pins[tool] = is
		}
		for tool := range hashes {
			is := pins[tool]
			c.exec("UPDATE pins SET approved = ?, bytes = ?, approved_as = seen_as, seen_as = NULL, approved_by = ?, approved_at = ? WHERE server = ? AND tool = ?",
				is.Approved, is.Bytes, by, now, server, tool)
		}
		c.exec("UPDATE reviews SET last = CASE WHEN last < ?1 THEN ?1 ELSE last + 1 END", now)
	})
}

// ApprovedDefinitions lists the definitions of a server that people have approved, the latest first.
func (s *Store) ApprovedDefinitions(ctx context.Context, server string, limit int) (_ []approval.ApprovedDefinition, err error) {
	defer wrap(&err, "list approved definitions of server %q", server)
	return list(ctx, s, func(row scanner) (d approval.ApprovedDefinition, err error) {
		return d, row.Scan(&d.Tool, &d.Hash, &d.By, instant{&d.At})
	}, "SELECT tool, approved, approved_by, approved_at FROM pins WHERE server = ? AND approved_by <> '' ORDER BY approved_at DESC, tool LIMIT ?", server, limit)
}

// LastReview returns when a person last approved a definition. Each approval has a later time than the previous approval.
func (s *Store) LastReview(ctx context.Context) (_ time.Time, err error) {
	defer wrap(&err, "look for approved definitions")
	return one(ctx, s, nil, func(row scanner) (at time.Time, err error) { return at, row.Scan(instant{&at}) }, "SELECT last FROM reviews")
}

// ForgetDefinitions removes the stored definitions of a server.
func (s *Store) ForgetDefinitions(ctx context.Context, server string) (err error) {
	defer wrap(&err, "forget the definitions of server %q", server)
	return s.write(ctx, 0, func(c *conn) { c.exec("DELETE FROM pins WHERE server = ?", server) })
}
