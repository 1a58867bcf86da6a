package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/versions"
)

const versionColumns = "name, num, digest, bytes, created, used, author, origin, state, base"

func scanVersion(row scanner) (v versions.Version, err error) {
	return v, scanVersionAnd(row, &v)
}

// scanVersionAnd scans versionColumns into v, and further columns into more.
func scanVersionAnd(row scanner, v *versions.Version, more ...any) error {
	to := []any{&v.Name, &v.Num, &v.Digest, &v.Bytes, instant{&v.Created}, instant{&v.Used}, &v.Author, object{&v.Origin}, &v.State, &v.Base}
	if err := row.Scan(append(to, more...)...); err != nil {
		return fmt.Errorf("a version of a skill as it is stored: %w", err)
	}
	return nil
}

// AddSkillVersion stores a content of a user's skill with the archive of its files, unless the skill has a version with the same digest. is is the stored
// version; added reports whether it is new. A version of the state versions.Kept becomes the version in use. The oldest version that is neither in use,
// held nor shared makes room for one that exceeds versions.MaxOfSkill. The error wraps versions.ErrFull or task.ErrQuota if the user has reached a bound. A
// version with a Base is a proposal for a shared skill: the error wraps versions.ErrBase if Base is neither the version that others see nor the newest
// proposal that waits for a review.
func (s *Store) AddSkillVersion(ctx context.Context, user string, v versions.Version, files []byte) (is versions.Version, added bool, err error) {
	defer wrap(&err, "store a version of skill %q", v.Name)
	origin, err := json.Marshal(v.Origin)
	if err != nil {
		return is, false, err
	}
	now := s.now().UnixMicro()
	err = s.write(ctx, len(files), func(c *conn) {
		is, added = versions.Version{}, false
		inUse, known := c.useVersion(user, v, now, &is)
		if known {
			return
		}
		s.admitVersion(c, user, v, inUse, len(files))
		c.exec("INSERT INTO skills (user, name) VALUES (?, ?) ON CONFLICT (user, name) DO NOTHING", user, v.Name)
		var last, shared int
		c.row("SELECT last, shared FROM skills WHERE user = ? AND name = ? /*+ FOR UPDATE */", []any{user, v.Name}, &last, &shared)
		if inUse, known = c.useVersion(user, v, now, &is); known { // another process was first
			return
		}
		if v.Base > 0 {
			c.admitProposal(user, v, shared, len(files))
		}
		if v.State == versions.Kept {
			inUse = 0 // the version that was in use is an ordinary one from now on
		}
		c.exec(`DELETE FROM skill_versions WHERE user = ?1 AND name = ?2 AND num = (SELECT min(num) FROM skill_versions WHERE user = ?1 AND name = ?2
			AND state <> 'held' AND num <> ?3 AND num <> ?5) AND (SELECT count(*) FROM skill_versions WHERE user = ?1 AND name = ?2) >= ?4`,
			user, v.Name, inUse, versions.MaxOfSkill, shared)
		is, added = v, true
		is.Num, is.Bytes, is.Created, is.Used = last+1, int64(len(files)), time.UnixMicro(now).UTC(), time.UnixMicro(now).UTC()
		c.exec("UPDATE skills SET last = ? WHERE user = ? AND name = ?", is.Num, user, v.Name)
		c.exec("INSERT INTO skill_versions (user, "+versionColumns+", files) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			user, v.Name, is.Num, v.Digest, is.Bytes, now, now, v.Author, origin, string(v.State), v.Base, files)
	})
	if err != nil {
		return versions.Version{}, false, err
	}
	return is, added, nil
}

// useVersion looks for a version with the digest of v. If the found version is kept, and v is, the found version becomes the one in use; so does a refused
// proposal, because its content is the owner's own now. known is also true after an error. inUse is the number of the version that was in use, 0 if there is none.
func (c *conn) useVersion(user string, v versions.Version, now int64, found *versions.Version) (inUse int, known bool) {
	var used int64
	c.row("SELECT num, used FROM skill_versions WHERE user = ? AND name = ? AND state = 'kept' ORDER BY used DESC, num DESC LIMIT 1", []any{user, v.Name}, &inUse, &used)
	c.each("SELECT "+versionColumns+" FROM skill_versions WHERE user = ? AND name = ? AND digest = ?", []any{user, v.Name, v.Digest}, func(row scanner) (err error) {
		known = true
		*found, err = scanVersion(row)
		return err
	})
	adopted := found.State == versions.Refused && found.Base > 0
	if known && c.err == nil && v.State == versions.Kept && (found.State == versions.Kept || adopted) && found.Num != inUse {
		now = max(now, used+1)
		found.Used, found.State = time.UnixMicro(now).UTC(), versions.Kept
		c.exec("UPDATE skill_versions SET used = ?, state = 'kept' WHERE user = ? AND name = ? AND num = ?", now, user, v.Name, found.Num)
	}
	return inUse, known || c.err != nil
}

// admitVersion refuses a version for which there is no room.
func (s *Store) admitVersion(c *conn, user string, v versions.Version, inUse, size int) {
	var count, bytes, others, held int64
	c.row("SELECT count(*), CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM skill_versions WHERE user = ?", []any{user}, &count, &bytes)
	c.row("SELECT count(*), count(CASE WHEN state = 'held' OR num = ? OR num = (SELECT shared FROM skills WHERE user = ? AND name = ?) THEN 1 END) FROM skill_versions WHERE user = ? AND name = ?",
		[]any{inUse, user, v.Name, user, v.Name}, &others, &held)
	const remedy = "remove skills that are not needed"
	switch {
	case c.err != nil:
	case others >= versions.MaxOfSkill && held == others:
		c.refuse(fmt.Errorf("%w: %d versions of the skill wait for a review; review some", versions.ErrFull, held))
	case count >= versions.MaxOfUser && others < versions.MaxOfSkill:
		c.refuse(fmt.Errorf("%w: %d versions for each user; %s", versions.ErrFull, versions.MaxOfUser, remedy))
	case bytes+int64(size) > versions.MaxUserBytes:
		c.refuse(fmt.Errorf("%w: %d bytes for each user; %s", versions.ErrFull, versions.MaxUserBytes, remedy))
	default:
		s.admit(c, user, quotaBytes)
	}
}

// SkillVersions returns the versions of a user's skill, or of all skills if name is empty. They are ordered by name, and the newest comes first.
func (s *Store) SkillVersions(ctx context.Context, user, name string) (_ []versions.Version, err error) {
	defer wrap(&err, "list versions of skills")
	if name == "" {
		all, err := list(ctx, s, scanVersion, "SELECT "+versionColumns+" FROM skill_versions WHERE user = ? ORDER BY user, name, num", user)
		slices.SortFunc(all, func(a, b versions.Version) int { return cmp.Or(strings.Compare(a.Name, b.Name), b.Num-a.Num) })
		return all, err
	}
	return list(ctx, s, scanVersion, "SELECT "+versionColumns+" FROM skill_versions WHERE user = ? AND name = ? ORDER BY num DESC", user, name)
}

// SkillVersion returns a version of a user's skill and the archive of its files. The error wraps versions.ErrNotFound.
func (s *Store) SkillVersion(ctx context.Context, user, name string, num int) (_ versions.Version, files []byte, err error) {
	defer wrap(&err, "version %d of skill %q", num, name)
	v, err := one(ctx, s, versions.ErrNotFound, func(row scanner) (v versions.Version, err error) {
		return v, scanVersionAnd(row, &v, &files)
	}, "SELECT "+versionColumns+", files FROM skill_versions WHERE user = ? AND name = ? AND num = ?", user, name, num)
	return v, files, err
}

// SetSkillState changes the state of a version. A version that becomes kept becomes the version in use. The error wraps versions.ErrNotFound, or
// versions.ErrState if the version has not the state from.
func (s *Store) SetSkillState(ctx context.Context, user, name string, num int, from, to versions.State) (err error) {
	defer wrap(&err, "version %d of skill %q", num, name)
	now := s.now().UnixMicro()
	return s.write(ctx, 0, func(c *conn) {
		var is string
		var used int64
		switch found := c.row("SELECT state FROM skill_versions WHERE user = ? AND name = ? AND num = ? /*+ FOR UPDATE */", []any{user, name, num}, &is); {
		case c.err != nil:
			return
		case !found:
			c.refuse(versions.ErrNotFound)
			return
		case versions.State(is) != from:
			c.refuse(fmt.Errorf("%w: it is %s", versions.ErrState, is))
			return
		}
		c.row("SELECT used FROM skill_versions WHERE user = ? AND name = ? AND state = 'kept' ORDER BY used DESC, num DESC LIMIT 1", []any{user, name}, &used)
		c.exec("UPDATE skill_versions SET state = ?1, used = CASE WHEN ?1 = 'kept' THEN ?2 ELSE used END WHERE user = ?3 AND name = ?4 AND num = ?5",
			string(to), max(now, used+1), user, name, num)
	})
}

// DeleteSkill removes everything that is stored of a user's skill. Its numbers begin at 1 again. A skill of which nothing is stored is no error.
func (s *Store) DeleteSkill(ctx context.Context, user, name string) (err error) {
	defer wrap(&err, "delete the history of skill %q", name)
	return s.write(ctx, 0, func(c *conn) {
		c.exec("DELETE FROM skill_versions WHERE user = ? AND name = ?", user, name)
		c.exec("DELETE FROM skills WHERE user = ? AND name = ?", user, name)
		c.exec("DELETE FROM skill_uses WHERE user = ? AND name = ?", user, name)
		c.exec("DELETE FROM skill_shares WHERE owner = ? AND name = ?", user, name)
		c.exec("DELETE FROM skill_accepted WHERE owner = ? AND name = ?", user, name)
	})
}

// SkillStatuses returns what is stored of the skills of a user beside their versions, by name.
func (s *Store) SkillStatuses(ctx context.Context, user string) (_ map[string]versions.Status, err error) {
	defer wrap(&err, "list what is stored of skills")
	all := map[string]versions.Status{}
	err = s.each(ctx, "SELECT name, tested, passed, failed, tested_at, promoted, promoted_by, promoted_at FROM skills WHERE user = ?", []any{user}, func(row scanner) error {
		var name string
		var t versions.Tested
		var p versions.Promoted
		if err := row.Scan(&name, &t.Digest, &t.Passed, &t.Failed, instant{&t.At}, &p.Digest, &p.By, instant{&p.At}); err != nil {
			return fmt.Errorf("a skill as it is stored: %w", err)
		}
		var is versions.Status
		if t.Digest != "" {
			is.Tested = &t
		}
		if p.Digest != "" {
			is.Promoted = &p
		}
		all[name] = is
		return nil
	})
	return all, err
}

// SetSkillTested stores the result of the tests of a user's skill.
func (s *Store) SetSkillTested(ctx context.Context, user, name string, t versions.Tested) (err error) {
	defer wrap(&err, "store the result of the tests of skill %q", name)
	return s.write(ctx, 0, func(c *conn) {
		c.exec(`INSERT INTO skills (user, name, tested, passed, failed, tested_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
			ON CONFLICT (user, name) DO UPDATE SET tested = ?3, passed = ?4, failed = ?5, tested_at = ?6`, user, name, t.Digest, t.Passed, t.Failed, t.At)
	})
}

// SetSkillPromoted stores that a user's skill is a tool of the user's clients, or that it is none if p is nil.
func (s *Store) SetSkillPromoted(ctx context.Context, user, name string, p *versions.Promoted) (err error) {
	defer wrap(&err, "promote skill %q", name)
	is := *cmp.Or(p, &versions.Promoted{})
	return s.write(ctx, 0, func(c *conn) {
		c.exec(`INSERT INTO skills (user, name, promoted, promoted_by, promoted_at) VALUES (?1, ?2, ?3, ?4, ?5)
			ON CONFLICT (user, name) DO UPDATE SET promoted = ?3, promoted_by = ?4, promoted_at = ?5`, user, name, is.Digest, is.By, orNull(is.At))
	})
}
