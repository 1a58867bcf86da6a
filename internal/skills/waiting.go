package skills

import (
	"context"
	"errors"

	"mcp-code-exec-harness/internal/versions"
)

// Waiting returns the versions that wait for a review of a user: of one skill, or of all if name is empty. These are imported versions and proposals for the user's
// own skills, and for skills of other users, whose names then begin with @, the version that others see, unless programs of the user use it, and proposals that
// the user may decide about. The author of what another user shares is its owner.
func (s *Store) Waiting(ctx context.Context, user, name string) (waiting []versions.Version, err error) {
	if name == "" || !IsShared(name) {
		if waiting, err = s.Held(ctx, user, name); err != nil || name != "" {
			return waiting, err
		}
	}
	others := []Other{}
	if name != "" {
		o, err := s.Other(ctx, user, name)
		if err != nil {
			return nil, err
		}
		others = append(others, o)
	} else if others, err = s.Others(ctx, user, ""); err != nil {
		return nil, err
	}
	for _, o := range others {
		if o.State != Unreviewed && o.State != Superseded && !o.Role.Includes(versions.Approve) {
			continue
		}
		known, err := s.Versions(ctx, o.Owner, o.Name)
		if err != nil {
			return nil, err
		}
		for _, v := range known {
			shown := v.Num == o.Version && (o.State == Unreviewed || o.State == Superseded)
			if shown {
				v.Author, v.Base, v.Origin, v.State = "shared by "+o.Owner, 0, nil, versions.Held
			}
			if shown || v.State == versions.Held && v.Base > 0 && o.Role.Includes(versions.Approve) {
				v.Name = o.name()
				waiting = append(waiting, v)
			}
		}
	}
	return waiting, nil
}

// ConflictError says why a version cannot be approved at present.
type ConflictError struct{ error }

// Compared returns the content of a version that waits for a review of a user, and the content that is in use, which is nil if there is none. The error is a
// ConflictError if the version cannot be approved; the contents are set then.
func (s *Store) Compared(ctx context.Context, user string, v versions.Version) (c, present Content, err error) {
	owner, key, num := user, v.Name, 0 // num: version that is compared with
	if IsShared(v.Name) {
		o, err := s.Other(ctx, user, v.Name)
		if err != nil {
			return nil, nil, err
		}
		owner, key, num = o.Owner, o.Name, o.Accepted
		if v.Base > 0 {
			num = o.Version
		}
	} else if v.Base > 0 {
		shares, err := s.Shares(ctx, user, v.Name)
		if err != nil {
			return nil, nil, err
		}
		if len(shares) > 0 {
			num = shares[0].Version
		}
	}
	if _, c, err = s.Version(ctx, owner, key, v.Num); err != nil {
		return nil, nil, err
	}
	switch {
	case num > 0:
		_, present, err = s.Version(ctx, owner, key, num)
		if errors.Is(err, versions.ErrNotFound) {
			err = nil
		}
	case v.Base > 0 && !IsShared(v.Name):
		err = ConflictError{errors.New("the skill is shared with nobody any more")}
	case !IsShared(v.Name):
		if present, err = s.Present(ctx, user, v.Name, v.Origin); err != nil {
			err = ConflictError{err}
		}
		if _, failed := ReadHeader(string(c[manifest])); failed != nil {
			return nil, nil, failed
		}
	}
	return c, present, err
}
