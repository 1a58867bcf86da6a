package skills

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/versions"
)

// Other is a skill that another user shares with a user.
type Other struct {
	versions.Shared
	Path string `json:"path"` // "/skills/@bob/pdf"
	// State says whether programs use it.
	State string `json:"state" enum:"used,changed,unreviewed,readable"`

	trusted bool
}

// The values of Other.State.
const (
	Used       = "used"       // programs use the version that others see
	Superseded = "changed"    // programs use the accepted version, and its owner has shown a newer one
	Unreviewed = "unreviewed" // programs do not use it before the user has reviewed it
	Readable   = "readable"   // the role is versions.Read, so programs do not use it
)

// use is the number of the version that programs of the user read; 0 if they may not.
func (o *Other) use() int {
	switch {
	case !o.Role.Includes(versions.Use):
		return 0
	case o.trusted:
		return o.Version
	}
	return o.Accepted
}

// refusal is the error of a program that reads a skill that it may not use.
func (o *Other) refusal() error {
	if o.State == Readable {
		return &files.Error{Code: files.Denied, Detail: "its owner lets you read this skill, and not use it: ask for the role use"}
	}
	return &files.Error{Code: files.Denied, Detail: "this skill of another user is not used before you have reviewed it: harness skills review " + o.name()}
}

// name is the name of the skill for its user: "@bob/pdf".
func (o *Other) name() string { return strings.TrimPrefix(o.Path, "/skills/") }

// ownerName is the name of a user in paths of shared skills: the id, or for an id that could be taken for personal data, such as an address or a number, or
// that has other characters than letters, digits, _ and -, a name made of its letters and a hash. Programs write these paths, and models read them. No two users
// have the same name.
func ownerName(user string) string {
	digits := 0
	plain := user != "" && len(user) <= maxPlainOwner
	for _, r := range user {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '-'
		if r >= '0' && r <= '9' {
			digits++
		} else if !letter {
			plain = false
		}
	}
	if _, err := files.Clean(user); plain && digits <= maxPlainDigits && err == nil {
		return user
	}
	end := strings.IndexFunc(user, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
	if end < 0 {
		end = len(user)
	}
	sum := sha256.Sum256([]byte(user))
	hash := make([]byte, 16) // 75 bits, as letters, which no detector takes for a secret
	for i := range hash {
		hash[i] = 'a' + byte(binary.BigEndian.Uint16(sum[2*i:])%26)
	}
	return user[:min(end, maxPlainOwner/2)] + "~" + string(hash)
}

// Bounds of user ids that are their own names in paths.
const (
	maxPlainOwner  = 40
	maxPlainDigits = 6
)

// SharedName returns the name that other users have for a user's skill.
func SharedName(owner, name string) string { return files.SharedPrefix + ownerName(owner) + "/" + name }

// IsShared reports whether a name or path of a skill is that of another user's.
func IsShared(name string) bool {
	return strings.HasPrefix(inside(name), files.SharedPrefix)
}

// grantees are the names by which skills are shared with a user.
func (s *Store) grantees(user string) []string {
	all := []string{versions.Everyone, versions.UserPrefix + user}
	for team, users := range s.opt.Teams {
		if slices.Contains(users, user) {
			all = append(all, versions.TeamPrefix+team)
		}
	}
	slices.Sort(all)
	return all
}

// Grantee returns the grantee that a person means: everyone, team:NAME, user:ID, or ID for a user.
func (s *Store) Grantee(with string) (string, error) {
	team, isTeam := strings.CutPrefix(with, versions.TeamPrefix)
	switch {
	case isTeam && s.opt.Teams[team] == nil:
		return "", errors.New("there is no such team; auth.teams in the configuration names them")
	case with == "" || with == versions.UserPrefix:
		return "", errors.New("name a user, team:NAME or everyone")
	}
	if id, isUser := strings.CutPrefix(grantee(with), versions.UserPrefix); isUser {
		if err := auth.CleanUser(id); err != nil {
			return "", err
		}
	}
	return grantee(with), nil
}

func grantee(with string) string {
	if with == versions.Everyone || strings.HasPrefix(with, versions.TeamPrefix) || strings.HasPrefix(with, versions.UserPrefix) {
		return with
	}
	return versions.UserPrefix + with
}

// Others returns the skills that other users share with a user, ordered by path. owner limits them to those of one owner, by the id. If it is empty, the result
// has at most versions.MaxListed that the user has not accepted for each grantee, however many users share theirs.
func (s *Store) Others(ctx context.Context, user, owner string) ([]Other, error) {
	if s.history == nil {
		return nil, nil
	}
	history, err := s.history()
	if err != nil {
		return nil, err
	}
	granted, err := history.SharedSkills(ctx, user, owner, s.grantees(user))
	if err != nil {
		return nil, err
	}
	var all []Other
	index := map[string]int{} // index in all by path
	for _, g := range granted {
		o := Other{Shared: g, Path: "/skills/" + SharedName(g.Owner, g.Name)}
		i, known := index[o.Path]
		switch {
		case g.Owner == user:
		case !known:
			index[o.Path] = len(all)
			all = append(all, o)
		case o.Role.Includes(all[i].Role):
			all[i].Role = o.Role
		}
	}
	for i := range all {
		o := &all[i]
		o.trusted = slices.ContainsFunc(s.grantees(o.Owner), func(g string) bool { return slices.Contains(s.opt.Trusted, g) })
		switch used := o.use(); {
		case !o.Role.Includes(versions.Use):
			o.State = Readable
		case used == 0:
			o.State = Unreviewed
		case used != o.Version:
			o.State = Superseded
		default:
			o.State = Used
		}
	}
	slices.SortFunc(all, func(a, b Other) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

// of returns the skills of one owner that a user sees, by the owner's name in paths.
func (s *Store) of(ctx context.Context, user, name string) ([]Other, error) {
	owner := ""
	if ownerName(name) == name { // the name is that of its user
		owner = name
	}
	all, err := s.Others(ctx, user, owner)
	return slices.DeleteFunc(all, func(o Other) bool { return ownerName(o.Owner) != name }), err
}

// Other returns a skill that another user shares with a user, by its name or path: "@bob/pdf". The error wraps fs.ErrNotExist if the user sees none.
func (s *Store) Other(ctx context.Context, user, name string) (Other, error) {
	owner, rest, _ := strings.Cut(strings.TrimPrefix(inside(name), files.SharedPrefix), "/")
	all, err := s.of(ctx, user, owner)
	if err != nil {
		return Other{}, err
	}
	var found []Other
	for _, o := range all {
		if o.Name == rest {
			return o, nil
		}
		if isModule(o.Name) && strings.TrimSuffix(o.Name, path.Ext(o.Name)) == rest {
			found = append(found, o)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Other{}, fmt.Errorf("skill %q: %w; harness skills shares lists what others share", name, fs.ErrNotExist)
	}
	return Other{}, fmt.Errorf("skill %q: the name fits %s and %s; give the path", name, found[0].Path, found[1].Path)
}

// OtherContent returns a version of another user's skill: the number 0 means the one that others see. Of the older versions, a user gets the one that they have
// accepted; with the role versions.Write, also proposals.
func (s *Store) OtherContent(ctx context.Context, o Other, num int) (versions.Version, Content, error) {
	num = cmp.Or(num, o.Version)
	v, c, err := s.Version(ctx, o.Owner, o.Name, num)
	if err == nil && num != o.Version && num != o.Accepted && !(v.Base > 0 && o.Role.Includes(versions.Write)) {
		return versions.Version{}, nil, fmt.Errorf("version %d of skill %q: %w", num, o.name(), versions.ErrNotFound)
	}
	return v, c, err
}

// used returns the content of a skill that programs of its user read.
func (s *Store) used(ctx context.Context, o *Other) (Content, error) {
	num, digest := o.use(), o.AcceptedDigest
	if num == 0 {
		return nil, o.refusal()
	}
	if num == o.Version {
		digest = o.Digest
	}
	return s.shared.get(digest, func() (Content, error) {
		_, c, err := s.Version(ctx, o.Owner, o.Name, num)
		return c, err
	})
}

// Describe describes the content of another user's skill as it is for the user.
func (o *Other) Describe(c Content) Skill {
	k := c.Describe(o.Name)
	k.Name, k.Path = SharedName(o.Owner, k.Name), o.Path
	return k
}

// Describe describes a content as the skill with a path inside /skills.
func (c Content) Describe(name string) Skill {
	at := dirOf{c, name}
	if c[manifest] == nil {
		return module(at, files.Entry{Name: path.Base(name), Path: name, Size: int64(len(c[path.Base(name)]))})
	}
	var entries []files.Entry
	for file, data := range c {
		entries = append(entries, files.Entry{Name: path.Base(file), Path: path.Join(name, file), Size: int64(len(data))})
	}
	slices.SortFunc(entries, func(a, b files.Entry) int { return strings.Compare(a.Path, b.Path) })
	return folder(at, name, entries)
}

// dirOf is a Content at its place in a directory.
type dirOf struct {
	c    Content
	name string
}

// ReadFile implements reader.
func (d dirOf) ReadFile(p string, offset, length int64) ([]byte, error) {
	rest, ok := strings.CutPrefix(p, d.name+"/")
	if !ok {
		rest = path.Base(p)
	}
	data, ok := d.c[rest]
	if !ok {
		return nil, &files.Error{Code: files.NotFound, Op: "open", Path: "/skills/" + p}
	}
	data = data[min(offset, int64(len(data))):]
	if length >= 0 {
		data = data[:min(length, int64(len(data)))]
	}
	return data, nil
}
