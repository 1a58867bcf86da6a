package skills

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/versions"
)

// History keeps the versions of skills, and what is known of skills. Its methods are safe for concurrent use, also by several processes. A skill is named
// by its path inside /skills.
type History interface {
	// AddSkillVersion stores a content with the archive of its files, unless the skill has a version with the same digest. It sets Num, Bytes, Created
	// and Used. is is the stored version; added reports whether it is new. A version of the state versions.Kept becomes the version in use. The error
	// wraps versions.ErrFull or task.ErrQuota if the user has reached a bound. A version with a Base is a proposal: the error wraps versions.ErrBase if Base is
	// neither the version that others see nor the newest proposal.
	AddSkillVersion(ctx context.Context, user string, v versions.Version, files []byte) (is versions.Version, added bool, err error)
	// SkillVersions returns the versions of a skill, or of all skills of the user if name is empty, ordered by name, the newest first.
	SkillVersions(ctx context.Context, user, name string) ([]versions.Version, error)
	// SkillVersion returns a version and the archive of its files. The error wraps versions.ErrNotFound.
	SkillVersion(ctx context.Context, user, name string, num int) (versions.Version, []byte, error)
	// SetSkillState changes the state of a version. A version that becomes kept becomes the version in use. The error wraps versions.ErrNotFound, or
	// versions.ErrState if the version has not the state from.
	SetSkillState(ctx context.Context, user, name string, num int, from, to versions.State) error
	// DeleteSkill removes everything that is stored of a skill.
	DeleteSkill(ctx context.Context, user, name string) error
	// SkillStatuses returns what is stored of the skills of a user beside their versions, by name.
	SkillStatuses(ctx context.Context, user string) (map[string]versions.Status, error)
	// SetSkillTested stores the result of the tests of a skill.
	SetSkillTested(ctx context.Context, user, name string, t versions.Tested) error
	// SetSkillPromoted stores that a skill is a tool of its user's clients, or that it is none if p is nil.
	SetSkillPromoted(ctx context.Context, user, name string, p *versions.Promoted) error
	// UseSkills stores that a run of a user has ended which used skills, by their names. request is the text of its task, empty if there is none.
	UseSkills(ctx context.Context, user string, names []string, succeeded bool, request string) error
	// SkillUses returns the uses of skills by programs of a user, by the names of the skills. The requests are not older than the store keeps tasks.
	SkillUses(ctx context.Context, user string) (map[string]versions.Uses, error)
	// ShareSkill adds a share of an owner's skill, or changes its role. num becomes the version that others see if the skill is not shared yet. shared is the
	// version that others see. The error wraps versions.ErrNotFound, versions.ErrState for a version that is not kept, or versions.ErrShares.
	ShareSkill(ctx context.Context, owner string, of versions.Share, num int) (shared int, err error)
	// UnshareSkill ends a share, or all shares of the skill if with is empty. It returns the number of shares that have ended.
	UnshareSkill(ctx context.Context, owner, name, with string) (ended int, err error)
	// MoveShared makes a version of a shared skill the one that others see in place of the version from. A proposal becomes kept, and older ones are refused.
	// The error wraps versions.ErrBase if others see another version than from by now, versions.ErrNotFound or versions.ErrState.
	MoveShared(ctx context.Context, owner, name string, from, to int) error
	// SkillShares returns the shares of an owner's skill, or of all skills of the owner if name is empty, ordered by name and grantee.
	SkillShares(ctx context.Context, owner, name string) ([]versions.Share, error)
	// SharedSkills returns the skills that owners share with any of the grantees, once for each share, with the version that user has accepted. If owner is not
	// empty, the result has only skills of the owner. Otherwise it has those that the user has accepted and, for each grantee, at most versions.MaxListed others.
	SharedSkills(ctx context.Context, user, owner string, grantees []string) ([]versions.Shared, error)
	// AcceptSkill stores that a user accepts a content of an owner's skill, or none if digest is empty. The error wraps versions.ErrShares if the user has
	// reached the bound.
	AcceptSkill(ctx context.Context, user, owner, name, digest string) error
}

// Bounds of the content of a skill of which a version is stored.
const (
	maxContentFiles = 1000
	maxContentBytes = 16 << 20
)

// Content is the content of a skill: its files by their paths. The paths of a folder are relative to it; a module is one file with its own name.
type Content map[string][]byte

// Digest returns the SHA-256 of the content in hexadecimal. It depends on the names and the bytes of the files only.
func (c Content) Digest() string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(sum, "%d:%s,%d:", len(name), name, len(c[name]))
		sum.Write(c[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Zip returns a zip archive of the content, the same one for the same content. The names of the files begin with dir, which may be empty.
func (c Content) Zip(dir string) ([]byte, error) {
	var text bytes.Buffer
	w := zip.NewWriter(&text)
	for _, name := range slices.Sorted(maps.Keys(c)) {
		f, err := w.CreateHeader(&zip.FileHeader{Name: path.Join(dir, name), Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
		if err == nil {
			_, err = f.Write(c[name])
		}
		if err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return text.Bytes(), err
}

// check returns an error for a content of which no version can be stored.
func (c Content) check() error {
	size := 0
	for name, data := range c {
		if !fs.ValidPath(name) || name == "." || strings.Contains(name, `\`) {
			return fmt.Errorf("%q is no path of a file of a skill", name)
		}
		size += len(data)
	}
	switch {
	case len(c) == 0:
		return errors.New("the skill has no files")
	case len(c) > maxContentFiles:
		return fmt.Errorf("the skill has more than %d files", maxContentFiles)
	case size > maxContentBytes:
		return fmt.Errorf("the skill has more than %d bytes", maxContentBytes)
	}
	return nil
}

// unzip reads an archive that Zip has made without a directory.
func unzip(archive []byte) (Content, error) {
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, err
	}
	c, left := Content{}, int64(maxContentBytes)
	for _, f := range r.File {
		from, err := f.Open()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(from, left+1))
		if err := errors.Join(err, from.Close()); err != nil {
			return nil, err
		}
		c[f.Name], left = data, left-int64(len(data))
		if left < 0 {
			break // check reports it
		}
	}
	return c, c.check()
}

// key returns the name of a skill in the history.
func (k *Skill) key() string { return strings.TrimPrefix(k.Path, "/skills/") }

// content reads the present files of a skill.
func content(d *files.Dir, k *Skill) (Content, error) {
	if k.Kind == Module {
		data, err := d.ReadFile(k.key(), 0, maxContentBytes+1)
		if err != nil {
			return nil, err
		}
		c := Content{path.Base(k.Path): data}
		return c, c.check()
	}
	if len(k.Files) > maxContentFiles {
		return nil, fmt.Errorf("the skill has more than %d files", maxContentFiles)
	}
	c, left := Content{}, int64(maxContentBytes)
	for _, name := range k.Files {
		data, err := d.ReadFile(path.Join(k.key(), name), 0, left+1)
		if err != nil {
			return nil, err
		}
		c[name] = data
		if left -= int64(len(data)); left < 0 {
			break
		}
	}
	return c, c.check()
}

// openHistory opens the store of versions.
func (s *Store) openHistory() (History, error) {
	if s.history == nil {
		return nil, errors.New("this installation keeps no history of skills")
	}
	return s.history()
}

// Content returns a skill of a user by its name or path, with its present files.
func (s *Store) Content(user, name string) (Skill, Content, error) {
	d, k, err := s.find(user, name)
	if err != nil {
		return k, nil, fmt.Errorf("skill %q: %w", name, err)
	}
	defer d.Close()
	c, err := content(d, &k)
	if err != nil {
		return k, nil, fmt.Errorf("read the files of skill %q: %w", name, err)
	}
	return k, c, nil
}

// Reader reads the present files of a skill: all, or those of a folder that names list.
type Reader func(names ...string) (Content, error)

// Each calls visit for the skills of a user, sorted by path, until visit returns false. visit may call read before it returns.
func (s *Store) Each(user string, visit func(k Skill, read Reader) bool) error {
	d, err := s.Dir(user)
	if err != nil {
		return fmt.Errorf("list skills: %w", err)
	}
	defer d.Close()
	all, err := list(d)
	if err != nil {
		return fmt.Errorf("list skills: %w", err)
	}
	for i := range all {
		read := func(names ...string) (Content, error) {
			k := all[i]
			if len(names) > 0 {
				k.Files = names
			}
			return content(d, &k)
		}
		if !visit(all[i], read) {
			break
		}
	}
	return nil
}

// Record stores the present content of a user's skill as a version, unless it is one already. author names what made the content: a person, a run.
func (s *Store) Record(ctx context.Context, user, name, author string) (Skill, Content, versions.Version, error) {
	k, c, err := s.Content(user, name)
	if err != nil {
		return k, nil, versions.Version{}, err
	}
	v, _, err := s.AddVersion(ctx, user, versions.Version{Name: k.key(), Author: author, State: versions.Kept}, c)
	return k, c, v, err
}

// AddVersion stores a content as a version of a user's skill, unless the skill has it already. v has the name (the path inside /skills), the author, the
// origin and the state. A held or refused content is in the history only; nothing of it is below /skills.
func (s *Store) AddVersion(ctx context.Context, user string, v versions.Version, c Content) (is versions.Version, added bool, err error) {
	history, err := s.openHistory()
	if err != nil {
		return is, false, err
	}
	if err := c.check(); err != nil {
		return is, false, fmt.Errorf("store a version of skill %q: %w", v.Name, err)
	}
	archive, err := c.Zip("")
	if err != nil {
		return is, false, fmt.Errorf("store a version of skill %q: %w", v.Name, err)
	}
	v.Digest = c.Digest()
	return history.AddSkillVersion(ctx, user, v, archive)
}

// Versions returns the versions of a user's skill by the name of the skill in the history, or of all skills if name is empty: ordered by name, the newest
// first.
func (s *Store) Versions(ctx context.Context, user, name string) ([]versions.Version, error) {
	history, err := s.openHistory()
	if err != nil {
		return nil, err
	}
	return history.SkillVersions(ctx, user, name)
}

// Version returns a version of a user's skill with its files. The error wraps versions.ErrNotFound.
func (s *Store) Version(ctx context.Context, user, name string, num int) (versions.Version, Content, error) {
	history, err := s.openHistory()
	if err != nil {
		return versions.Version{}, nil, err
	}
	v, archive, err := history.SkillVersion(ctx, user, name, num)
	if err != nil {
		return v, nil, err
	}
	c, err := unzip(archive)
	if err == nil && c.Digest() != v.Digest {
		err = errors.New("its files are not those of its digest")
	}
	if err != nil {
		err = fmt.Errorf("version %d of skill %q: %w", num, name, err)
	}
	return v, c, err
}

// SetTested stores the result of the tests of a user's skill, named by its path.
func (s *Store) SetTested(ctx context.Context, user, at string, t versions.Tested) error {
	history, err := s.openHistory()
	if err != nil {
		return err
	}
	return history.SetSkillTested(ctx, user, strings.TrimPrefix(at, "/skills/"), t)
}

// SetState changes the state of a version of a user's skill; see [History]. It does not write files; [Store.Put] does.
func (s *Store) SetState(ctx context.Context, user, name string, num int, from, to versions.State) error {
	history, err := s.openHistory()
	if err != nil {
		return err
	}
	return history.SetSkillState(ctx, user, name, num, from, to)
}

// Put makes a content the present one of a user's skill, named by its path inside /skills. It writes the new files before it removes those that the content
// does not have. A content of a module is one file with the name of the module.
func (s *Store) Put(ctx context.Context, user, name string, c Content) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("write skill %q: %w", name, err)
	}
	d, err := s.Dir(user)
	if err != nil {
		return fmt.Errorf("write skill %q: %w", name, err)
	}
	defer d.Close()
	if err := put(ctx, d, name, c); err != nil {
		return fmt.Errorf("write skill %q: %w", name, err)
	}
	return nil
}

func put(ctx context.Context, d *files.Dir, name string, c Content) error {
	if c[manifest] == nil {
		data, ok := c[path.Base(name)]
		if !ok || len(c) != 1 || !isModule(name) {
			return errors.New("a skill is a folder with " + manifest + ", or one file of JavaScript or TypeScript")
		}
		return d.WriteFile(name, data)
	}
	before, err := d.ReadDir(ctx, name, true)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(c)) {
		if err := d.WriteFile(path.Join(name, file), c[file]); err != nil {
			return err
		}
	}
	for _, e := range before {
		if rel := strings.TrimPrefix(e.Path, name+"/"); !e.IsDir && c[rel] == nil {
			if err := d.Remove(ctx, e.Path, false, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// File is a file of a skill.
type File struct {
	Path   string `json:"path"` // relative to a folder; the name of a module
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Language is the language of a script that programs cannot execute, such as Python; they can read it. It is empty for any other file.
	Language string `json:"notExecutable,omitempty"`
}

// Files describes the files of the content, sorted by path.
func (c Content) Files() []File {
	all := []File{}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		sum := sha256.Sum256(c[name])
		all = append(all, File{name, len(c[name]), hex.EncodeToString(sum[:]), strings.Join(foreign([]string{name}), "")})
	}
	return all
}

// Main returns the text by which a skill is shown: SKILL.md, or the source of a module.
func (c Content) Main() []byte {
	if text, ok := c[manifest]; ok {
		return text
	}
	for _, text := range c {
		return text
	}
	return nil
}

// Uses returns how programs of a user have used skills, by the names of the skills in the history: "pdf", "crm/dedupe.ts", "@bob/pdf".
func (s *Store) Uses(ctx context.Context, user string) (map[string]versions.Uses, error) {
	if s.history == nil {
		return nil, nil
	}
	history, err := s.history()
	if err != nil {
		return nil, err
	}
	return history.SkillUses(ctx, user)
}

// Use stores that a run of a user has ended which used skills, by their names in the history.
func (s *Store) Use(ctx context.Context, user string, names []string, succeeded bool, request string) error {
	if s.history == nil {
		return nil
	}
	history, err := s.history()
	if err != nil {
		return err
	}
	return history.UseSkills(ctx, user, names, succeeded, request)
}
