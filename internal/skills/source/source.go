// Package source reads skills from elsewhere: folders, archives, git repositories, marketplace files, well-known indexes and MCP servers. It executes nothing of a
// source, writes nothing outside of a temporary directory, and refuses what it cannot take, with the reason. A skill that it has read is not in use:
// the caller holds it until a person has reviewed it.
package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/versions"
)

// Bundle is a skill as a source has it.
type Bundle struct {
	Name  string            // name in the header of its SKILL.md: lower-case words joined by hyphens
	Files map[string][]byte // contents by path inside the skill; the paths are in the form of files.Clean
	Path  string            // folder of the skill inside the source; "." for its root
	// Origin says where it is from. Its source names this skill alone, where the source has a form for that.
	Origin versions.Origin
}

// Skipped is a skill of a source that was not taken.
type Skipped struct {
	Path   string `json:"path"` // folder of the skill in the source, or its name in an index
	Reason string `json:"reason"`
}

// Found is what a source has.
type Found struct {
	Skills  []Bundle  // sorted by name; no two have the same name
	Skipped []Skipped // sorted by path
}

// Options are the circumstances of a reading.
type Options struct {
	Dir     string   // directory that relative paths begin at
	Environ []string // environment of git, which has the user's credentials for repositories
	Temp    string   // directory for temporary files; empty: that of the system
	Names   []string // names of the only skills to take; empty: all
	// AllowPrivate allows the host that the user named to be at an address of this machine or of a private network, and http in place of https. Hosts that
	// an answer names have to be public in any case.
	AllowPrivate bool
	// Server returns the MCP server that has a name in the configuration. If Server is nil, MCP servers cannot be read.
	Server func(ctx context.Context, name string) (Server, error)
}

// Server is an MCP server of the configuration that offers skills (SEP-2640). Its methods may be called again after an error.
type Server interface {
	// List returns the result of skills/list.
	List(ctx context.Context, cursor string) (json.RawMessage, error)
	// Get returns the result of skills/get.
	Get(ctx context.Context, uri string) (json.RawMessage, error)
	// Read returns the content of a resource.
	Read(ctx context.Context, uri string) ([]byte, error)
}

// Bounds of what is read. They are checked before the content is read, wherever the source says its sizes.
const (
	maxFiles     = 1000     // maximum number of files of a skill
	maxFile      = 4 << 20  // maximum size of a file in bytes
	maxSkill     = 16 << 20 // maximum size of a skill in bytes
	maxSkills    = 500      // maximum number of skills of a source
	maxAll       = 64 << 20 // maximum size of all skills that are taken from a source, in bytes
	maxEntries   = 50_000   // maximum number of files and directories of a source
	maxArchive   = 32 << 20 // maximum size of an archive in bytes
	maxRatio     = 100      // maximum number of bytes that one byte of an archive unpacks to
	freeUnpacked = 1 << 20  // number of unpacked bytes to which maxRatio does not apply
	maxTime      = 5 * time.Minute
)

// Listed is a skill that a source has.
type Listed struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Source      string `json:"source"` // the argument of harness skills add
}

// List returns the skills of a source; see [Read]. Of an index it gets nothing but the index.
func List(ctx context.Context, where string, opt Options) (all []Listed, err error) {
	p, err := Parse(where, opt.Dir)
	if err != nil {
		return nil, err
	}
	if p.kind == kindIndex {
		index, err := (&reading{place: p, opt: opt}).getIndex(ctx)
		for _, e := range index.Skills {
			all = append(all, Listed{e.Name, e.Description, p.shown})
		}
		return all, err
	}
	found, err := Read(ctx, where, opt)
	if err != nil {
		return nil, err
	}
	for _, b := range found.Skills {
		h, err := skills.ReadHeader(string(b.Files[manifest]))
		if err != nil {
			return nil, err
		}
		all = append(all, Listed{b.Name, h.Description, b.Origin.Source})
	}
	return all, nil
}

// Read reads the skills of a source; see [Parse] for the forms of where. The error says why nothing could be read. Problems of single skills are in Found.Skipped.
func Read(ctx context.Context, where string, opt Options) (*Found, error) {
	p, err := Parse(where, opt.Dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxTime, fmt.Errorf("it takes longer than %s", maxTime))
	defer cancel()
	r := &reading{place: p, opt: opt}
	switch p.kind {
	case kindFolder:
		err = r.folder(ctx)
	case kindArchive:
		err = r.archive(ctx)
	case kindGit:
		err = r.git(ctx)
	case kindIndex:
		err = r.index(ctx)
	case kindMCP:
		err = r.server(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read the skills of %s: %w", p.shown, err)
	}
	r.settle()
	return &r.found, nil
}

// reading is the state of one Read.
type reading struct {
	place Place
	opt   Options
	found Found
	size  int64 // bytes of the skills that were taken
}

func (r *reading) skip(path, format string, args ...any) {
	r.found.Skipped = append(r.found.Skipped, Skipped{path, fmt.Sprintf(format, args...)})
}

// wanted reports whether the user asked for a skill.
func (r *reading) wanted(name string) bool {
	return len(r.opt.Names) == 0 || slices.Contains(r.opt.Names, name)
}

// settle removes skills that have the name of another skill with other content, sorts, and reports names that were asked for and are not there.
func (r *reading) settle() {
	byName := map[string][]Bundle{}
	for _, b := range r.found.Skills {
		byName[b.Name] = append(byName[b.Name], b)
	}
	r.found.Skills = nil
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		same := byName[name]
		if slices.ContainsFunc(same, func(b Bundle) bool { return !maps.EqualFunc(b.Files, same[0].Files, bytes.Equal) }) {
			var paths []string
			for _, b := range same {
				paths = append(paths, b.Path)
			}
			for _, path := range paths {
				r.skip(path, "the source has %d skills with the name %q, in %s: add one of these folders instead", len(same), name, strings.Join(paths, " and "))
			}
			continue
		}
		r.found.Skills = append(r.found.Skills, same[0])
	}
	for _, name := range r.opt.Names {
		if byName[name] == nil && !slices.ContainsFunc(r.found.Skipped, func(s Skipped) bool { return s.Path == name || strings.HasSuffix(s.Path, "/"+name) }) {
			r.skip(name, "the source has no skill with this name")
		}
	}
	slices.SortFunc(r.found.Skipped, func(a, b Skipped) int { return strings.Compare(a.Path, b.Path) })
}

// digest returns "sha256:" and the hexadecimal digest of data.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
