package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/versions"
)

// ShareSkill adds a share of an owner's skill, or changes its role. num becomes the version that others see if the skill is not shared yet. shared is the
// version that others see. The error wraps versions.ErrNotFound if the skill or version num is not stored, versions.ErrState if version num is not
// kept, and versions.ErrShares if the owner has reached the bound. Processes that share several skills of an owner at once may exceed it by their number.
func (s *Store) ShareSkill(ctx context.Context, owner string, of versions.Share, num int) (shared int, err error) {
	defer wrap(&err, "share skill %q", of.Name)
	now := s.now().UnixMicro()
	err = s.write(ctx, 0, func(c *conn) {
		shared = 0
		if !c.row("SELECT shared FROM skills WHERE user = ? AND name = ? /*+ FOR UPDATE */", []any{owner, of.Name}, &shared) {
			c.refuse(versions.ErrNotFound)
			return
		}
		if shared == 0 {
			shared = num
			c.showVersion(owner, of.Name, num)
		}
		var known, others int
		c.row("SELECT count(*), count(CASE WHEN name = ? AND grantee = ? THEN 1 END) FROM skill_shares WHERE owner = ?", []any{of.Name, of.With, owner}, &others, &known)
		if known == 0 && others >= versions.MaxShares {
			c.refuse(fmt.Errorf("%w: %d for each owner; end some with harness skills unshare", versions.ErrShares, versions.MaxShares))
			return
		}
		c.exec("INSERT INTO skill_shares (owner, name, grantee, role, created) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (owner, name, grantee) DO UPDATE SET role = ?4",
			owner, of.Name, of.With, string(of.Role), now)
	})
	return shared, err
}

// showVersion makes a version the one that others see. The caller has locked the skill. A proposal becomes kept, and older ones are refused.
func (c *conn) showVersion(owner, name string, num int) {
	var state string
	var base int
	switch found := c.row("SELECT state, base FROM skill_versions WHERE user = ? AND name = ? AND num = ? /*+ FOR UPDATE */", []any{owner, name, num}, &state, &base); {
	case c.err != nil:
		return
	case !found:
		c.refuse(versions.ErrNotFound)
		return
	case state != string(versions.Kept) && (state != string(versions.Held) || base == 0):
		c.refuse(fmt.Errorf("%w: it is %s", versions.ErrState, state))
		return
	}
	c.exec("UPDATE skills SET shared = ? WHERE user = ? AND name = ?", num, owner, name)
	if state == string(versions.Held) {
		c.exec("UPDATE skill_versions SET state = 'kept' WHERE user = ? AND name = ? AND num = ?", owner, name, num)
		c.exec("UPDATE skill_versions SET state = 'refused' WHERE user = ? AND name = ? AND state = 'held' AND base > 0 AND num < ?", owner, name, num)
	}
}

// admitProposal refuses a proposal that was not made from the newest version that its author sees, or for which there is no room. shared is the version that
// others see.
func (c *conn) admitProposal(user string, v versions.Version, shared, size int) {
	var waiting, newest int
	c.row("SELECT count(*), coalesce(max(num), 0) FROM skill_versions WHERE user = ? AND name = ? AND state = 'held' AND base > 0", []any{user, v.Name}, &waiting, &newest)
	switch newest = max(newest, shared); {
	case c.err != nil:
	case shared == 0:
		c.refuse(versions.ErrNotFound)
	case v.Base != newest:
		c.refuse(fmt.Errorf("%w: %d", versions.ErrBase, newest))
	case waiting >= versions.MaxProposals:
		c.refuse(fmt.Errorf("%w: %d proposals of the skill wait for a review", versions.ErrFull, waiting))
	case size > versions.MaxProposalBytes:
		c.refuse(fmt.Errorf("%w: a proposal may have %d bytes, compressed", versions.ErrFull, versions.MaxProposalBytes))
	}
}

// UnshareSkill ends a share of an owner's skill, or all of them if with is empty. It returns the number of shares that have ended.
func (s *Store) UnshareSkill(ctx context.Context, owner, name, with string) (ended int, err error) {
	defer wrap(&err, "end shares of skill %q", name)
	err = s.write(ctx, 0, func(c *conn) {
		c.row("SELECT shared FROM skills WHERE user = ? AND name = ? /*+ FOR UPDATE */", []any{owner, name}, new(int))
		ended = int(c.changed("DELETE FROM skill_shares WHERE owner = ?1 AND name = ?2 AND (?3 = '' OR grantee = ?3)", owner, name, with))
		c.exec("UPDATE skills SET shared = 0 WHERE user = ?1 AND name = ?2 AND NOT EXISTS (SELECT 1 FROM skill_shares WHERE owner = ?1 AND name = ?2)", owner, name)
	})
	return ended, err
}

// MoveShared makes a version of a shared skill the one that others see in place of the version from. A proposal becomes a kept version, and older ones are
// refused. The error wraps versions.ErrBase if others see another version than from by now, and versions.ErrNotFound or versions.ErrState as ShareSkill's.
func (s *Store) MoveShared(ctx context.Context, owner, name string, from, to int) (err error) {
	defer wrap(&err, "show version %d of skill %q", to, name)
	return s.write(ctx, 0, func(c *conn) {
		var shared int
		switch found := c.row("SELECT shared FROM skills WHERE user = ? AND name = ? /*+ FOR UPDATE */", []any{owner, name}, &shared); {
		case c.err != nil:
		case !found || shared == 0:
			c.refuse(versions.ErrNotFound)
		case shared != from:
			c.refuse(fmt.Errorf("%w: others see version %d by now", versions.ErrBase, shared))
		default:
			c.showVersion(owner, name, to)
		}
	})
}

// SkillShares returns the shares of an owner's skill, or of all skills of the owner if name is empty, ordered by name and grantee.
func (s *Store) SkillShares(ctx context.Context, owner, name string) (_ []versions.Share, err error) {
	defer wrap(&err, "list shares of skills")
	query, args := "", []any{owner}
	if name != "" {
		query, args = " AND s.name = ?", append(args, name)
	}
	return list(ctx, s, func(row scanner) (of versions.Share, err error) {
		return of, row.Scan(&of.Name, &of.With, &of.Role, instant{&of.Created}, &of.Version)
	}, `SELECT s.name, s.grantee, s.role, s.created, k.shared FROM skill_shares s CROSS JOIN skills k ON k.user = s.owner AND k.name = s.name WHERE s.owner = ?`+query+
		" ORDER BY s.owner, s.name, s.grantee", args...)
}

// SharedSkills returns the skills that owners share with any of the grantees: once for each share, in no order. user is who has accepted versions. If owner is
// not empty, the result has only skills of the owner. Otherwise it has those that the user has accepted and, for each grantee, at most versions.MaxListed others.
func (s *Store) SharedSkills(ctx context.Context, user, owner string, grantees []string) (all []versions.Shared, err error) {
	defer wrap(&err, "list shared skills")
	const (
		columns = "SELECT s.owner, s.name, s.role, k.shared, v.digest, coalesce(w.num, 0), coalesce(w.digest, '') FROM "
		shown   = " JOIN skills k ON k.user = s.owner AND k.name = s.name JOIN skill_versions v ON v.user = s.owner AND v.name = s.name AND v.num = k.shared"
		used    = " LEFT JOIN skill_versions w ON w.user = a.owner AND w.name = a.name AND w.digest = a.digest"
		maybe   = " LEFT JOIN skill_accepted a ON a.user = ? AND a.owner = s.owner AND a.name = s.name"
	)
	in, args := "s.grantee IN (?"+strings.Repeat(", ?", len(grantees)-1)+")", []any{}
	for _, g := range grantees {
		args = append(args, g)
	}
	add := func(query string, args ...any) {
		if err != nil {
			return
		}
		var some []versions.Shared
		some, err = list(ctx, s, func(row scanner) (of versions.Shared, err error) {
			return of, row.Scan(&of.Owner, &of.Name, &of.Role, &of.Version, &of.Digest, &of.Accepted, &of.AcceptedDigest)
		}, columns+query, args...)
		all = append(all, some...)
	}
	if owner != "" {
		add("skill_shares s"+shown+maybe+used+" WHERE "+in+" AND s.owner = ?", append(append([]any{user}, args...), owner)...)
		return all, err
	}
	add("skill_accepted a JOIN skill_shares s ON s.owner = a.owner AND s.name = a.name AND "+in+shown+used+" WHERE a.user = ?", append(args, user)...)
	for _, g := range grantees {
		add("skill_shares s"+shown+maybe+used+" WHERE s.grantee = ? AND a.user IS NULL ORDER BY s.grantee, s.owner, s.name LIMIT ?", user, g, versions.MaxListed)
	}
	return all, err
}

// AcceptSkill stores that a user accepts a content of an owner's skill, or none if digest is empty. The caller has checked that the user sees it. The error
// wraps versions.ErrShares if the user has reached the bound.
func (s *Store) AcceptSkill(ctx context.Context, user, owner, name, digest string) (err error) {
	defer wrap(&err, "accept skill %q of %q", name, owner)
	now := s.now().UnixMicro()
	return s.write(ctx, 0, func(c *conn) {
		if digest == "" {
			c.exec("DELETE FROM skill_accepted WHERE user = ? AND owner = ? AND name = ?", user, owner, name)
			return
		}
		var count int
		c.row("SELECT count(*) FROM skill_accepted WHERE user = ? AND NOT (owner = ? AND name = ?)", []any{user, owner, name}, &count)
		if count >= versions.MaxAccepted {
			c.refuse(fmt.Errorf("%w: %d accepted skills of others; refuse some with harness skills review @OWNER/NAME --refuse", versions.ErrShares, count))
			return
		}
		c.exec(`INSERT INTO skill_accepted (user, owner, name, digest, created) VALUES (?1, ?2, ?3, ?4, ?5)
			ON CONFLICT (user, owner, name) DO UPDATE SET digest = ?4, created = ?5`, user, owner, name, digest, now)
	})
}
