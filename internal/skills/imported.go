package skills

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"mcp-code-exec-harness/internal/versions"
)

// Header is what the head of a SKILL.md says of an imported skill.
type Header struct {
	Name         string
	Description  string
	AllowedTools []string
}

// ReadHeader reads the head of a SKILL.md. The error says why a skill cannot be installed under the name in it.
func ReadHeader(text string) (Header, error) {
	f, err := parseFront(text)
	if err != nil {
		return Header{}, err
	}
	h := Header{string(f.Name), oneLine(string(f.Description)), words(f.AllowedTools)}
	switch {
	case h.Name == "":
		err = errors.New("SKILL.md has no name in its head")
	case !ValidName(h.Name):
		err = fmt.Errorf("SKILL.md: name %q must be lower-case words joined by hyphens, at most 64 characters", oneLine(h.Name))
	}
	return h, err
}

// ErrNotHeld reports a digest of which no version is held.
var ErrNotHeld = errors.New("nothing with this digest is held")

// Hold stores an imported content, which is not in use before [Store.Approve]: it is in the history only, where no program can read it. A content that was
// refused before is held again. The result has the state versions.Kept if the content was approved before; then nothing is held.
func (s *Store) Hold(ctx context.Context, user, name string, c Content, origin versions.Origin) (versions.Version, error) {
	v, _, err := s.AddVersion(ctx, user, versions.Version{Name: name, Author: origin.Source, Origin: &origin, State: versions.Held}, c)
	if err == nil && v.State == versions.Refused {
		err = s.SetState(ctx, user, name, v.Num, versions.Refused, versions.Held)
		v.State = versions.Held
	}
	return v, err
}

// Held returns the versions that are held of a user's skill, or of all skills if name is empty; see [Store.Versions]. name is what the skill is imported as or, if
// nothing is held of that, the name or path of a skill.
func (s *Store) Held(ctx context.Context, user, name string) (held []versions.Version, err error) {
	held, err = s.heldOf(ctx, user, name)
	if err == nil && len(held) == 0 && name != "" {
		if key, failed := s.Key(ctx, user, name); failed == nil && key != name {
			return s.heldOf(ctx, user, key)
		}
	}
	return held, err
}

// heldOf returns the versions that are held of the skill with a name in the history, or of all skills if it is empty.
func (s *Store) heldOf(ctx context.Context, user, key string) (held []versions.Version, err error) {
	all, err := s.Versions(ctx, user, key)
	for _, v := range all {
		if v.State == versions.Held {
			held = append(held, v)
		}
	}
	return held, err
}

// Present returns the content that approving an import would replace; nil if the name is free. The error says why the name cannot be used: it belongs to a
// skill that is not from the same source, or something else is at its path.
func (s *Store) Present(ctx context.Context, user, name string, origin *versions.Origin) (Content, error) {
	all, err := s.List(user)
	if err != nil {
		return nil, err
	}
	path := "/skills/" + name
	for _, k := range all {
		switch {
		case k.Path != path && (strings.EqualFold(k.Name, name) || strings.EqualFold(k.Path, path)):
			return nil, fmt.Errorf("there is a skill %s already, and no imported skill may be taken for it; rename or remove one", k.Path)
		case k.Path == path:
			known, err := s.Versions(ctx, user, name)
			if err != nil {
				return nil, err
			}
			for _, v := range known {
				if v.State == versions.Kept && v.Origin != nil && origin != nil && v.Origin.Source == origin.Source {
					_, c, err := s.Content(user, name)
					return c, err
				}
			}
			return nil, fmt.Errorf("there is a skill %s already, which is not from this source; rename or remove it", path)
		}
	}
	d, err := s.Dir(user)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if _, err := d.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, fmt.Errorf("there is something else at %s; move or remove it", path))
	}
	return nil, nil
}

// Approve makes a held content the present one of its skill. digest identifies what a person has seen; by is that person. Older versions that are held of the
// same source are refused with it. The content that is replaced stays in the history. A proposal becomes what others see of the skill, and the user's own files
// stay as they are. Of another user's skill, the content that others see is accepted, or a proposal is approved; the error then wraps ErrRole without the role.
func (s *Store) Approve(ctx context.Context, user, name, digest, by string) (versions.Version, error) {
	fail := func(err error) (versions.Version, error) {
		return versions.Version{}, fmt.Errorf("approve skill %q: %w", name, err)
	}
	if IsShared(name) {
		v, err := s.approveOther(ctx, user, name, digest)
		if err != nil {
			return fail(err)
		}
		return v, nil
	}
	held, err := s.Held(ctx, user, name)
	if err != nil {
		return fail(err)
	}
	var v versions.Version
	for _, h := range held {
		if h.Digest == digest {
			v, name = h, h.Name
		}
	}
	if v.Num == 0 {
		return fail(ErrNotHeld)
	}
	if v.Base > 0 {
		if v, err = s.approveProposal(ctx, user, name, digest); err != nil {
			return fail(err)
		}
		return v, nil
	}
	_, c, err := s.Version(ctx, user, name, v.Num)
	if err != nil {
		return fail(err)
	}
	present, err := s.Present(ctx, user, name, v.Origin)
	if err == nil && present != nil {
		_, _, _, err = s.Record(ctx, user, name, by)
	}
	if err != nil {
		return fail(err)
	}
	if err := s.SetState(ctx, user, name, v.Num, versions.Held, versions.Kept); err != nil {
		return fail(err)
	}
	if err := s.Put(ctx, user, name, c); err != nil {
		return fail(errors.Join(err, s.SetState(context.WithoutCancel(ctx), user, name, v.Num, versions.Kept, versions.Held)))
	}
	for _, older := range held {
		if older.Num < v.Num && older.Origin != nil && v.Origin != nil && older.Origin.Source == v.Origin.Source {
			if err := s.SetState(ctx, user, name, older.Num, versions.Held, versions.Refused); err != nil && !errors.Is(err, versions.ErrState) {
				return fail(err)
			}
		}
	}
	v.State = versions.Kept
	return v, nil
}

// Refuse refuses everything that is held of a user's skill, and returns it. Of another user's skill, it refuses the proposals that the user may decide about, or
// else the skill is no longer in use for the user.
func (s *Store) Refuse(ctx context.Context, user, name string) ([]versions.Version, error) {
	if IsShared(name) {
		return s.refuseOther(ctx, user, name)
	}
	held, err := s.Held(ctx, user, name)
	for _, v := range held {
		if err == nil {
			err = s.SetState(ctx, user, v.Name, v.Num, versions.Held, versions.Refused)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("refuse skill %q: %w", name, err)
	}
	return held, nil
}
