package skills

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"mcp-code-exec-harness/internal/versions"
)

// ErrRole reports a role that a user lacks for another user's skill.
var ErrRole = errors.New("not allowed")

// InvalidError is what is wrong with a request to share a skill or to propose a version of one, for its author.
type InvalidError string

func (e InvalidError) Error() string { return string(e) }

// Share lets others see a user's skill, named by its name or path: the version that others see already, or else the present content, which is stored first.
// with is a grantee, see [Store.Grantee]. check returns an error for a content that must not be shared. The error wraps versions.ErrShares if the user has
// reached the bound, and is an InvalidError for a skill or grantee that is unsuitable.
func (s *Store) Share(ctx context.Context, owner, name, with string, role versions.Role, check func(Content) error) (versions.Share, error) {
	of := versions.Share{Role: role}
	var err error
	if of.With, err = s.Grantee(with); err != nil {
		return of, InvalidError(err.Error())
	}
	switch {
	case of.With == versions.UserPrefix+owner:
		return of, InvalidError("the skill is that of this user already; name another one")
	case !slices.Contains(versions.Roles, role):
		return of, InvalidError("the role has to be read, use, write or approve")
	}
	history, err := s.openHistory()
	if err != nil {
		return of, err
	}
	if of.Name, err = s.Key(ctx, owner, name); err != nil {
		return of, err
	}
	known, err := history.SkillShares(ctx, owner, of.Name)
	if err != nil {
		return of, err
	}
	var num int
	if len(known) > 0 {
		num = known[0].Version
	} else {
		_, v, err := s.presented(ctx, owner, name, check)
		if err != nil {
			return of, err
		}
		num = v.Num
	}
	of.Version, err = history.ShareSkill(ctx, owner, of, num)
	return of, err
}

// presented stores the present content of a user's skill, unless others must not see it.
func (s *Store) presented(ctx context.Context, owner, name string, check func(Content) error) (History, versions.Version, error) {
	history, err := s.openHistory()
	if err != nil {
		return nil, versions.Version{}, err
	}
	k, c, v, err := s.Record(ctx, owner, name, owner)
	switch {
	case err != nil:
	case k.Problem != "":
		err = InvalidError(k.Problem)
	case v.State != versions.Kept:
		err = fmt.Errorf("version %d of skill %q: %w: it is %s, and a person has to review it first", v.Num, v.Name, versions.ErrState, v.State)
	default:
		err = check(c)
	}
	return history, v, err
}

// ShowOthers makes the present content of a shared skill the version that others see; see [Store.Share]. The error wraps versions.ErrBase if another version became that
// meanwhile, and versions.ErrNotFound if the skill is not shared.
func (s *Store) ShowOthers(ctx context.Context, owner, name string, check func(Content) error) (versions.Version, error) {
	key, err := s.Key(ctx, owner, name)
	if err != nil {
		return versions.Version{}, err
	}
	shown, err := s.shown(ctx, owner, key)
	if err != nil {
		return versions.Version{}, err
	}
	history, v, err := s.presented(ctx, owner, name, check)
	if err != nil {
		return v, err
	}
	return v, history.MoveShared(ctx, owner, key, shown, v.Num)
}

// shown is the number of the version of an owner's skill that others see.
func (s *Store) shown(ctx context.Context, owner, key string) (int, error) {
	all, err := s.Shares(ctx, owner, key)
	if err == nil && len(all) == 0 {
		err = InvalidError("the skill is shared with nobody; name one with --with")
	}
	if err != nil {
		return 0, err
	}
	return all[0].Version, nil
}

// Shares returns the shares of a user's skill, by its name in the history, or of all skills of the user if name is empty.
func (s *Store) Shares(ctx context.Context, owner, name string) ([]versions.Share, error) {
	history, err := s.openHistory()
	if err != nil {
		return nil, err
	}
	return history.SkillShares(ctx, owner, name)
}

// Unshare ends a share of a user's skill, or all of them if with is empty. It takes effect at the next read of every program. It returns the number of
// shares that have ended.
func (s *Store) Unshare(ctx context.Context, owner, name, with string) (int, error) {
	history, err := s.openHistory()
	if err != nil {
		return 0, err
	}
	key, err := s.Key(ctx, owner, name)
	if err != nil {
		return 0, err
	}
	if with != "" {
		with = grantee(with) // maybe a team that the configuration does not name any more
	}
	return history.UnshareSkill(ctx, owner, key, with)
}

// Propose stores the present content of a user's own skill as a proposal for a skill of another user, which is not in use before it is approved. base is the
// version of that skill that the content was made from. The error wraps ErrRole without the role versions.Write, versions.ErrBase if there is a newer version
// than base, versions.ErrFull if there is no room, and fs.ErrNotExist for an unknown skill; it is an InvalidError for an unsuitable content.
func (s *Store) Propose(ctx context.Context, user, name, own string, base int, check func(Content) error) (versions.Version, error) {
	o, err := s.Other(ctx, user, name)
	if err == nil && !o.Role.Includes(versions.Write) {
		err = fmt.Errorf("%w: proposals for %s take the role write; the role of this user is %s", ErrRole, o.name(), o.Role)
	}
	if err != nil {
		return versions.Version{}, err
	}
	k, c, err := s.Content(user, own)
	if err != nil {
		return versions.Version{}, err
	}
	switch isOne := isModule(o.Name); {
	case base < 1:
		return versions.Version{}, InvalidError("name the version that the content was made from")
	case isOne != (k.Kind == Module):
		return versions.Version{}, InvalidError("one of the two is a folder, and the other one a file")
	case isOne:
		c = Content{path.Base(o.Name): c[path.Base(k.Path)]}
	}
	if problem := c.Describe(o.Name).Problem; problem != "" {
		return versions.Version{}, InvalidError(problem)
	}
	if err := check(c); err != nil {
		return versions.Version{}, err
	}
	v, added, err := s.AddVersion(ctx, o.Owner, versions.Version{Name: o.Name, Author: user, State: versions.Held, Base: base}, c)
	if err == nil && !added && (v.State != versions.Held || v.Base == 0) {
		// The owner's own versions are not told apart from what others see, so that a proposal does not find out what they are.
		err = InvalidError("the skill had this content before; propose what differs")
	}
	return v, err
}

// Proposals returns the proposals for a skill that a user may decide about, the newest first: the user's own skill, or one of another user for which the user has
// the role versions.Approve.
func (s *Store) Proposals(ctx context.Context, user, name string) (owner string, proposals []versions.Version, shown int, err error) {
	owner = user
	var key string
	if IsShared(name) {
		o, err := s.Other(ctx, user, name)
		if err != nil || !o.Role.Includes(versions.Approve) {
			return "", nil, 0, err
		}
		owner, key, shown = o.Owner, o.Name, o.Version
	} else {
		if key, err = s.Key(ctx, user, name); err != nil {
			return "", nil, 0, err
		}
		shares, err := s.Shares(ctx, user, key)
		if err != nil || len(shares) == 0 {
			return owner, nil, 0, err
		}
		shown = shares[0].Version
	}
	held, err := s.Held(ctx, owner, key)
	return owner, slices.DeleteFunc(held, func(v versions.Version) bool { return v.Base == 0 }), shown, err
}

// approveProposal makes a proposal the version that others see.
func (s *Store) approveProposal(ctx context.Context, user, name, digest string) (versions.Version, error) {
	owner, proposals, shown, err := s.Proposals(ctx, user, name)
	if err != nil {
		return versions.Version{}, err
	}
	base := map[int]int{}
	var v versions.Version
	for _, p := range proposals {
		base[p.Num] = p.Base
		if p.Digest == digest {
			v = p
		}
	}
	if v.Num == 0 {
		return v, ErrNotHeld
	}
	for at := v.Base; at != shown; at = base[at] {
		if base[at] == 0 {
			return v, fmt.Errorf("%w: the proposal was made from version %d, and others see version %d by now; it has to be made from that", versions.ErrBase, v.Base, shown)
		}
	}
	history, err := s.openHistory()
	if err == nil {
		err = history.MoveShared(ctx, owner, v.Name, shown, v.Num)
	}
	if err == nil && owner != user {
		err = history.AcceptSkill(ctx, user, owner, v.Name, v.Digest)
	}
	v.State = versions.Kept
	return v, err
}

// approveOther accepts the content of another user's skill that others see, or makes a proposal for it that. digest says which.
func (s *Store) approveOther(ctx context.Context, user, name, digest string) (versions.Version, error) {
	o, err := s.Other(ctx, user, name)
	switch {
	case err != nil:
		return versions.Version{}, err
	case digest != o.Digest && o.Role.Includes(versions.Approve):
		return s.approveProposal(ctx, user, name, digest)
	case digest != o.Digest:
		return versions.Version{}, ErrNotHeld
	case !o.Role.Includes(versions.Use):
		return versions.Version{}, fmt.Errorf("%w: the owner lets this user read the skill, and not use it", ErrRole)
	}
	v, _, err := s.OtherContent(ctx, o, o.Version)
	if err != nil {
		return v, err
	}
	history, err := s.openHistory()
	if err == nil {
		err = history.AcceptSkill(ctx, user, o.Owner, o.Name, digest)
	}
	return v, err
}

// refuseOther refuses the proposals for another user's skill that the user may decide about. If there are none, the skill is no longer in use for the user.
func (s *Store) refuseOther(ctx context.Context, user, name string) ([]versions.Version, error) {
	o, err := s.Other(ctx, user, name)
	if err != nil {
		return nil, err
	}
	owner, proposals, _, err := s.Proposals(ctx, user, name)
	if err != nil {
		return nil, err
	}
	for _, v := range proposals {
		if err := s.SetState(ctx, owner, v.Name, v.Num, versions.Held, versions.Refused); err != nil {
			return nil, err
		}
	}
	if len(proposals) > 0 {
		return proposals, nil
	}
	v, _, err := s.OtherContent(ctx, o, o.Version)
	if err != nil {
		return nil, err
	}
	history, err := s.openHistory()
	if err == nil {
		err = history.AcceptSkill(ctx, user, o.Owner, o.Name, "")
	}
	return []versions.Version{v}, err
}

// Newest returns the number of the newest version of another user's skill that its user may see: the one that others see, or with the role versions.Write a
// proposal.
func (s *Store) Newest(ctx context.Context, o Other) (int, error) {
	newest := o.Version
	if !o.Role.Includes(versions.Write) {
		return newest, nil
	}
	held, err := s.Held(ctx, o.Owner, o.Name)
	for _, v := range held {
		if v.Base > 0 {
			newest = max(newest, v.Num)
		}
	}
	return newest, err
}

// Copy makes a skill of another user, as the user's programs use it, one of the user's own, under its name. It replaces an earlier copy only.
func (s *Store) Copy(ctx context.Context, user, name, by string) (versions.Version, error) {
	fail := func(err error) (versions.Version, error) {
		return versions.Version{}, fmt.Errorf("copy %s: %w", name, err)
	}
	o, err := s.Other(ctx, user, name)
	if err != nil {
		return fail(err)
	}
	c, err := s.used(ctx, &o)
	if err != nil {
		return fail(err)
	}
	origin := versions.Origin{Source: o.name(), Commit: fmt.Sprintf("version %d", o.use()), Digest: c.Digest()}
	own := path.Base(o.Name)
	if _, err := s.Present(ctx, user, own, &origin); err != nil {
		return fail(err)
	}
	v, err := s.Hold(ctx, user, own, c, origin)
	if err == nil && v.State == versions.Held {
		v, err = s.Approve(ctx, user, own, v.Digest, by)
	} else if err == nil {
		v, err = s.Restore(ctx, user, own, v.Num, by)
	}
	if err != nil {
		return fail(err)
	}
	v.Origin = &origin // an earlier version with this content may be from elsewhere
	return v, nil
}
