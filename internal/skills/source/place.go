package source

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"mcp-code-exec-harness/internal/startup"
)

// mcpPrefix is the beginning of a source that is an MCP server.
const mcpPrefix = "mcp:"

// kind is a kind of source.
type kind int

const (
	kindFolder  kind = iota // a folder of this machine
	kindArchive             // a .zip or .tar.gz, of this machine or at an address
	kindGit                 // a git repository
	kindIndex               // a site with a well-known index
	kindMCP                 // an MCP server of the configuration
)

// Place is a source as its user named it.
type Place struct {
	kind  kind
	shown string   // the source in one canonical form
	file  string   // path of a folder or archive of this machine
	at    *url.URL // address of an archive or index; nil for files of this machine
	repo  string   // address that git fetches from
	ref   string   // branch, tag or commit; empty: the default one
	under string   // folder inside of the repository or folder, or a marketplace file there; empty: all
	// server is the name of an MCP server in the configuration, and uri the URI of the SKILL.md of its only skill to read; empty: all.
	server, uri string
}

// String returns the source in one canonical form. Two ways to write the same source give the same form, apart from redirects.
func (p Place) String() string { return p.shown }

// of returns the source that has the skill in a folder of p alone; of an MCP server, the skill with a URI. An archive or a site has no such form: it is the source of all its skills.
func (p Place) of(folder string) string {
	switch {
	case p.kind == kindFolder:
		return filepath.Join(p.file, filepath.FromSlash(folder))
	case p.kind == kindMCP && folder == "":
		return mcpPrefix + p.server
	case p.kind == kindMCP:
		return mcpPrefix + p.server + "/" + folder
	case p.kind == kindGit && folder != ".":
		return p.repo + "#" + p.ref + ":" + folder
	}
	return p.shown
}

// shorthand is the form of a repository of GitHub: owner/name, a path in it, and a branch, tag or commit.
var shorthand = startup.Regexp(`^([A-Za-z0-9][A-Za-z0-9-]{0,38})/([A-Za-z0-9._-]{1,100})((?:/[^@]*)?)(?:@(.+))?$`)

// scp is the short form of an ssh address: git@host:path.
var scp = startup.Regexp(`^[A-Za-z0-9._-]+@[A-Za-z0-9][A-Za-z0-9.-]*:[^:]+$`)

// Parse returns the source that where names:
//
//	./folder, /folder, ./skills.zip                 a folder, or an archive
//	./folder/.claude-plugin/marketplace.json        what a marketplace file lists
//	owner/name[/path][@ref]                         a repository of GitHub
//	https://host/repo.git, ssh://…, git@host:…, file://…   a repository; #ref, or #ref:path, may follow
//	https://host/skills.tar.gz                      an archive
//	https://host[/path]                             a site with /.well-known/agent-skills/index.json
//	mcp:SERVER, mcp:SERVER/skill://NAME/SKILL.md     an MCP server of the configuration that offers skills, or one of them
//
// dir is the directory that relative paths begin at.
func Parse(where, dir string) (Place, error) {
	switch {
	case where == "":
		return Place{}, errors.New("name a source: a folder, an archive, owner/name of GitHub, or the address of a repository or a site")
	case len(where) > 2048 || strings.ContainsFunc(where, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return Place{}, errors.New("the source is longer than 2048 characters, or has control characters")
	case strings.HasPrefix(where, "-"):
		return Place{}, fmt.Errorf("the source %q begins with -; write ./%[1]s for a folder of this name", where)
	}
	if rest, ok := strings.CutPrefix(where, mcpPrefix); ok {
		p := Place{kind: kindMCP, shown: where}
		if p.server, p.uri, _ = strings.Cut(rest, "/"); p.server == "" {
			return Place{}, errors.New("the source names no MCP server: write mcp:SERVER, with its name in mcpServers")
		}
		p.shown = p.of(p.uri)
		return p, nil
	}
	if u, err := url.Parse(where); err == nil && u.Scheme != "" && strings.Contains(where, "://") {
		return parseURL(where, u)
	}
	if scp().MatchString(strings.SplitN(where, "#", 2)[0]) {
		return parseGit(where)
	}
	full := where
	if !filepath.IsAbs(full) {
		full = filepath.Join(dir, where)
	}
	_, err := os.Stat(full)
	local := filepath.IsAbs(where) || where == "." || where == ".." || strings.HasPrefix(where, "."+string(filepath.Separator)) || strings.HasPrefix(where, ".."+string(filepath.Separator)) ||
		strings.HasPrefix(where, "./") || strings.HasPrefix(where, "../")
	m := shorthand().FindStringSubmatch(where)
	switch {
	case m != nil && !local && err == nil && !isArchive(where):
		return Place{}, fmt.Errorf("%q is a folder here and the form of a repository of GitHub: write ./%[1]s, or https://github.com/%[1]s", where)
	case m != nil && !local && err != nil:
		under, err := folderIn(m[3])
		if err != nil {
			return Place{}, err
		}
		p := Place{kind: kindGit, repo: "https://github.com/" + m[1] + "/" + strings.TrimSuffix(m[2], ".git") + ".git", ref: m[4], under: under}
		return p.asGit()
	case err != nil:
		return Place{}, fmt.Errorf("%q is no folder or archive here, and no address: %w", where, err)
	case isArchive(where):
		return Place{kind: kindArchive, file: full, shown: full}, nil
	case path.Base(filepath.ToSlash(where)) == marketplaceFile:
		// The paths in the file begin at the directory that has .claude-plugin.
		root := filepath.Dir(full)
		for d := root; filepath.Dir(d) != d; d = filepath.Dir(d) {
			if strings.HasPrefix(filepath.Base(d), ".") {
				root = filepath.Dir(d)
				break
			}
		}
		rel, err := filepath.Rel(root, full)
		if err != nil {
			return Place{}, err
		}
		return Place{kind: kindFolder, file: root, under: filepath.ToSlash(rel), shown: full}, nil
	}
	return Place{kind: kindFolder, file: full, shown: full}, nil
}

func parseURL(where string, u *url.URL) (Place, error) {
	if _, has := u.User.Password(); has || u.User != nil && u.Scheme != "ssh" {
		return Place{}, errors.New("a source may not hold a password or token, which would be recorded: set up a credential helper of git, or ssh")
	}
	switch u.Scheme {
	case "https", "http":
	case "ssh", "file", "git+https", "git+ssh", "git+file":
		return parseGit(strings.TrimPrefix(where, "git+"))
	default:
		return Place{}, fmt.Errorf("sources are at https, ssh or file addresses, not %s", u.Scheme)
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	switch {
	case u.Host == "":
		return Place{}, errors.New("the address names no host")
	case strings.HasSuffix(u.Path, ".git"):
		return parseGit(where)
	case strings.EqualFold(u.Host, "github.com") && len(parts) >= 2:
		under, ref := "", ""
		if len(parts) > 3 && (parts[2] == "tree" || parts[2] == "blob") {
			ref, under = parts[3], strings.Join(parts[4:], "/")
		} else if len(parts) > 2 {
			return Place{}, errors.New("the address is no repository of GitHub, and no folder of one: write owner/name, or owner/name/path@ref")
		}
		under, err := folderIn(strings.TrimSuffix(under, "/"+manifest))
		if err != nil {
			return Place{}, err
		}
		return Place{kind: kindGit, repo: "https://github.com/" + parts[0] + "/" + parts[1] + ".git", ref: ref, under: under}.asGit()
	case isArchive(u.Path):
		u.Fragment = ""
		return Place{kind: kindArchive, at: u, shown: u.String()}, nil
	case path.Base(u.Path) == marketplaceFile:
		return Place{}, errors.New("a marketplace file names folders beside itself: add the repository that has it")
	}
	u.Fragment, u.RawQuery = "", ""
	if !strings.HasSuffix(u.Path, wellKnown) {
		u.Path = strings.TrimSuffix(u.Path, "/") + wellKnown
	}
	u.RawPath = ""
	return Place{kind: kindIndex, at: u, shown: strings.TrimSuffix(u.String(), wellKnown)}, nil
}

// parseGit returns the repository with an address, which may have #ref or #ref:path at its end.
func parseGit(where string) (Place, error) {
	repo, fragment, _ := strings.Cut(where, "#")
	ref, under, _ := strings.Cut(fragment, ":")
	under, err := folderIn(under)
	if err != nil {
		return Place{}, err
	}
	return Place{kind: kindGit, repo: repo, ref: ref, under: under}.asGit()
}

// asGit checks the place of a repository, whose parts become arguments of git.
func (p Place) asGit() (Place, error) {
	if strings.HasPrefix(p.ref, "-") || strings.ContainsAny(p.ref, " ~^:?*[\\") || strings.Contains(p.ref, "..") {
		return Place{}, fmt.Errorf("%q is not the name of a branch, tag or commit", p.ref)
	}
	p.shown = p.repo
	if p.ref != "" || p.under != "" {
		p.shown += "#" + p.ref
	}
	if p.under != "" {
		p.shown += ":" + p.under
	}
	return p, nil
}

// folderIn returns the canonical form of a folder inside of a repository.
func folderIn(folder string) (string, error) {
	folder = strings.Trim(folder, "/")
	if folder == "" {
		return "", nil
	}
	if clean := path.Clean(folder); clean != folder || folder == ".." || strings.HasPrefix(folder, "../") {
		return "", fmt.Errorf("%q is no folder inside of the source", folder)
	}
	return folder, nil
}

// isArchive reports whether a file name is that of an archive.
func isArchive(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, ".zip") || strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tgz")
}
