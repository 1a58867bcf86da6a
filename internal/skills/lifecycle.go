package skills

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/linediff"
	"mcp-code-exec-harness/internal/versions"
)

// Entry is a skill of a user with what is known of it.
type Entry struct {
	Skill
	Current  int              `json:"currentVersion,omitempty"` // number of the version of the present content; 0 if there is none yet
	Versions int              `json:"versions"`                 // number of versions that the user can go back to
	Tested   *versions.Tested `json:"tested,omitempty"`         // result of the last tests
	// Result is "passed" or "failed" if the present content was tested, "changed" if only an earlier one was, "untested" otherwise.
	Result   string         `json:"result" enum:"passed,failed,changed,untested"`
	Promoted bool           `json:"promoted,omitempty"` // whether the present content is a tool of MCP clients
	Uses     *versions.Uses `json:"uses,omitempty"`     // how programs of the user have used it; nil if none has
	Shared   *Other         `json:"shared,omitempty"`   // how another user shares the skill; nil for a skill of the user's own
}

// The values of Entry.Result.
const (
	Passed   = "passed"
	Failed   = "failed"
	Changed  = "changed"
	Untested = "untested"
)

// Overview returns the skills of a user with what is known of them, sorted by path, and after them those that other users share. It records nothing.
func (s *Store) Overview(ctx context.Context, user string) ([]Entry, error) {
	history, err := s.openHistory()
	if err != nil {
		return nil, err
	}
	d, err := s.Dir(user)
	if err != nil {
		return nil, fmt.Errorf("list skills: %w", err)
	}
	defer d.Close()
	all, err := list(d)
	if err != nil {
		return nil, fmt.Errorf("list skills: %w", err)
	}
	known, err := history.SkillVersions(ctx, user, "")
	if err != nil {
		return nil, err
	}
	statuses, err := history.SkillStatuses(ctx, user)
	if err != nil {
		return nil, err
	}
	uses, err := history.SkillUses(ctx, user)
	if err != nil {
		return nil, err
	}
	entries := []Entry{}
	for i := range all {
		digest := ""
		if c, err := content(d, &all[i]); err == nil { // else the content is too large, or was removed meanwhile
			digest = c.Digest()
		}
		entries = append(entries, entryOf(all[i], digest, known, statuses[all[i].key()]))
	}
	others, err := s.Others(ctx, user, "")
	for i := range others {
		entries = append(entries, others[i].entry())
	}
	for i := range entries {
		if u, ok := uses[entries[i].key()]; ok {
			entries[i].Uses = &u
		}
	}
	return entries, err
}

// entry is another user's skill in a list. It has no description: that is a text of a person whom the user may not trust yet.
func (o *Other) entry() Entry {
	k := Skill{Name: o.name(), Path: o.Path, Kind: Folder}
	if isModule(o.Name) {
		k.Name, k.Kind = strings.TrimSuffix(k.Name, path.Ext(k.Name)), Module
	}
	return Entry{Skill: k, Current: o.use(), Result: Untested, Shared: o}
}

func entryOf(k Skill, digest string, known []versions.Version, status versions.Status) Entry {
	e := Entry{Skill: k, Tested: status.Tested, Result: Untested, Promoted: status.Promoted != nil && status.Promoted.Digest == digest}
	for _, v := range known {
		if v.Name != k.key() || v.State != versions.Kept {
			continue
		}
		e.Versions++
		if v.Digest == digest {
			e.Current = v.Num
		}
	}
	switch t := status.Tested; {
	case t == nil || t.Passed+t.Failed == 0:
	case t.Digest != digest:
		e.Result = Changed
	case t.Failed > 0:
		e.Result = Failed
	default:
		e.Result = Passed
	}
	return e
}

// Entry returns a skill of a user by its name or path, with what is known of it and its present files. It records nothing.
func (s *Store) Entry(ctx context.Context, user, name string) (Entry, Content, error) {
	k, c, err := s.Content(user, name)
	if err != nil {
		return Entry{}, nil, err
	}
	history, err := s.openHistory()
	if err != nil {
		return Entry{}, nil, err
	}
	known, err := history.SkillVersions(ctx, user, k.key())
	if err != nil {
		return Entry{}, nil, err
	}
	status, uses, err := s.Status(ctx, user, k.key())
	e := entryOf(k, c.Digest(), known, status)
	e.Uses = uses
	return e, c, err
}

// Status returns what is known of a skill of a user beside its versions, by the name of the skill in the history. uses is nil if no program has used it.
func (s *Store) Status(ctx context.Context, user, key string) (status versions.Status, uses *versions.Uses, err error) {
	history, err := s.openHistory()
	if err != nil {
		return status, nil, err
	}
	statuses, err := history.SkillStatuses(ctx, user)
	if err != nil {
		return status, nil, err
	}
	all, err := history.SkillUses(ctx, user)
	if u, ok := all[key]; ok {
		uses = &u
	}
	return statuses[key], uses, err
}

// Key returns the name in the history of a skill of a user, by the name or path of the skill. The skill may have been removed. The error wraps
// fs.ErrNotExist if there is and was no skill with this name.
func (s *Store) Key(ctx context.Context, user, name string) (string, error) {
	k, err := s.Find(user, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return k.key(), err
	}
	history, failed := s.openHistory()
	if failed != nil {
		return "", failed
	}
	key := inside(name)
	for _, key := range []string{key, key + ".js", key + ".ts", key + ".mjs", key + ".cjs"} {
		switch all, err := history.SkillVersions(ctx, user, key); {
		case err != nil:
			return "", err
		case len(all) > 0:
			return key, nil
		}
	}
	return "", err
}

// Restore makes a version the content of a user's skill again. The present content is stored first. The skill may have been removed.
func (s *Store) Restore(ctx context.Context, user, name string, num int, author string) (versions.Version, error) {
	key, err := s.Key(ctx, user, name)
	if err != nil {
		return versions.Version{}, err
	}
	v, c, err := s.Version(ctx, user, key, num)
	if err != nil {
		return v, err
	}
	if v.State != versions.Kept {
		return v, fmt.Errorf("version %d of skill %q: %w: it is %s, and a person has to review it first", num, name, versions.ErrState, v.State)
	}
	if _, _, _, err := s.Record(ctx, user, "/skills/"+key, author); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	if err := s.Put(ctx, user, key, c); err != nil {
		return v, err
	}
	v, _, err = s.AddVersion(ctx, user, versions.Version{Name: key, Author: author, State: versions.Kept}, c)
	return v, err
}

// Remove removes the files of a user's skill. Its content is stored first, so that Restore brings it back; with forget, its history is removed as well. A
// removed skill is neither promoted nor shared.
func (s *Store) Remove(ctx context.Context, user, name, author string, forget bool) error {
	history, err := s.openHistory()
	if err != nil {
		return err
	}
	key, err := s.Key(ctx, user, name)
	if err != nil {
		return err
	}
	if !forget {
		if _, _, _, err := s.Record(ctx, user, "/skills/"+key, author); err != nil {
			return err
		}
	}
	d, err := s.Dir(user)
	if err != nil {
		return fmt.Errorf("remove skill %q: %w", name, err)
	}
	defer d.Close()
	if err := d.Remove(ctx, key, true, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove skill %q: %w", name, err)
	}
	if forget {
		return history.DeleteSkill(ctx, user, key)
	}
	if _, err := history.UnshareSkill(ctx, user, key, ""); err != nil {
		return err
	}
	return history.SetSkillPromoted(ctx, user, key, nil)
}

// ErrNotPromotable reports a skill that cannot be promoted as it is.
var ErrNotPromotable = errors.New("the skill cannot be promoted")

// Promote makes a skill a tool of its user's clients as it is now. A skill without passed tests is refused, unless untested is set; a skill whose tests fail is
// always refused. The error then wraps ErrNotPromotable.
func (s *Store) Promote(ctx context.Context, user, name, by string, untested bool, now time.Time) (Entry, error) {
	k, _, v, err := s.Record(ctx, user, name, by)
	if err != nil {
		return Entry{}, err
	}
	e, _, err := s.Entry(ctx, user, k.Path)
	if err != nil {
		return e, err
	}
	switch {
	case k.Problem != "":
		err = fmt.Errorf("%w: %s", ErrNotPromotable, k.Problem)
	case !k.Callable():
		err = fmt.Errorf("%w: it has to export one function, or a default one", ErrNotPromotable)
	case e.Result == Failed:
		err = fmt.Errorf("%w: %d of its tests fail; harness skills test %s says which", ErrNotPromotable, e.Tested.Failed, e.Name)
	case e.Result != Passed && !untested:
		err = fmt.Errorf("%w: its present content has passed no test; harness skills test %s, or --untested", ErrNotPromotable, e.Name)
	}
	if err != nil {
		return e, err
	}
	history, err := s.openHistory()
	if err == nil {
		err = history.SetSkillPromoted(ctx, user, k.key(), &versions.Promoted{Digest: v.Digest, By: by, At: now})
	}
	e.Promoted = err == nil
	return e, err
}

// Demote makes a skill no tool of its user's clients any more.
func (s *Store) Demote(ctx context.Context, user, name string) error {
	key, err := s.Key(ctx, user, name)
	if err != nil {
		return err
	}
	history, err := s.openHistory()
	if err != nil {
		return err
	}
	return history.SetSkillPromoted(ctx, user, key, nil)
}

// Callable reports whether a skill has one function that a call means: the default export, or the only export.
func (k *Skill) Callable() bool { return slices.Contains(k.Exports, "default") || len(k.Exports) == 1 }

// FileDiff is the difference of one file between two contents.
type FileDiff struct {
	Path string `json:"path"`
	Kind string `json:"kind" enum:"added,removed,changed"`
	// Diff is a unified diff without file names; empty for a file that is not text or is too large to compare.
	Diff string `json:"diff,omitempty"`
}

// Diff returns the files in which two contents differ, sorted by path.
func Diff(before, after Content) []FileDiff {
	all := []FileDiff{}
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, had := before[name]
		is, has := after[name]
		d := FileDiff{Path: name, Kind: "changed"}
		switch {
		case had && has && bytes.Equal(was, is):
			continue
		case !had:
			d.Kind = "added"
		case !has:
			d.Kind = "removed"
		}
		if utf8.Valid(was) && utf8.Valid(is) {
			d.Diff, _ = linediff.Of(string(was), string(is)) // after an error the texts are too large
		}
		all = append(all, d)
	}
	return all
}
