package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/versions"
)

const (
	maxPages = 100  // maximum number of pages of skills/list
	maxURI   = 2048 // maximum length of the URI of a skill or file in bytes
)

// server takes the skills of an MCP server.
func (r *reading) server(ctx context.Context) error {
	if r.opt.Server == nil {
		return errors.New("MCP servers can only be read by harness skills add")
	}
	from, err := r.opt.Server(ctx, r.place.server)
	if err != nil {
		return err
	}
	entries, err := r.entries(ctx, from)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, text := range entries {
		var e Served
		if err := json.Unmarshal(text, &e); err != nil {
			r.skip(visible(cmp.Or(folderOf(e.URI), "?")), "its entry is not valid: %v", err)
			continue
		}
		var head struct{ Name string }
		if json.Unmarshal(e.Frontmatter, &head) == nil && !r.wanted(head.Name) || seen[e.URI] {
			continue
		}
		seen[e.URI] = true
		if err := r.served(ctx, from, e, head.Name); err != nil {
			r.skip(visible(folderOf(e.URI)), "%v", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// folderOf returns the URI of the folder of a SKILL.md.
func folderOf(uri string) string { return strings.TrimSuffix(uri, "/"+manifest) }

// entries returns the entries of the wanted skills of a server.
func (r *reading) entries(ctx context.Context, from Server) (all []json.RawMessage, err error) {
	if r.place.uri != "" {
		text, err := from.Get(ctx, r.place.uri)
		if err != nil {
			return nil, err
		}
		var got struct{ Skill json.RawMessage }
		var e struct{ URI string }
		if err := json.Unmarshal(text, &got); err != nil {
			return nil, fmt.Errorf("its answer to skills/get is not valid: %w", err)
		}
		if json.Unmarshal(got.Skill, &e) != nil || e.URI != r.place.uri {
			return nil, errors.New("its answer to skills/get is about another skill")
		}
		return []json.RawMessage{got.Skill}, nil
	}
	cursor := ""
	for range maxPages {
		text, err := from.List(ctx, cursor)
		if err != nil {
			return nil, err
		}
		var page struct {
			Skills     []json.RawMessage
			NextCursor string
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, fmt.Errorf("its answer to skills/list is not valid: %w", err)
		}
		all = append(all, page.Skills...)
		switch {
		case len(all) > maxSkills:
			return nil, fmt.Errorf("it lists more than %d skills: name one, as %s", maxSkills, r.place.of("URI"))
		case page.NextCursor == "" && len(all) == 0:
			return nil, fmt.Errorf("it lists no skills; a skill that it does not list can be named, as %s", r.place.of("URI"))
		case page.NextCursor == "":
			return all, nil
		}
		cursor = page.NextCursor
	}
	return nil, fmt.Errorf("its list has more than %d pages: name a skill, as %s", maxPages, r.place.of("URI"))
}

// served takes the skill of one entry. name is the name in the entry.
func (r *reading) served(ctx context.Context, from Server, e Served, name string) error {
	root, ok := strings.CutSuffix(e.URI, "/"+manifest)
	switch {
	case !ok || len(e.URI) > maxURI || !strings.Contains(root, "://") || strings.ContainsAny(e.URI, "?#"):
		return errors.New("its URI is not that of a SKILL.md")
	case !strings.HasSuffix(root, "/"+name) || !skills.ValidName(name):
		return errors.New("its URI does not end in its name, which must be lower-case words joined by hyphens")
	case e.Files.Dynamic:
		return errors.New("its content is dynamic, without digests: what a person reviews would not be what is in use")
	}
	if _, err := cleanURI(root[strings.Index(root, "://")+len("://"):]); err != nil {
		return fmt.Errorf("its URI is not valid: %w", err)
	}
	paths, size, err := e.Files.paths(root)
	switch {
	case err != nil:
		return err
	case r.size+size > maxAll:
		return fmt.Errorf("the skills before it have %d bytes, and all may have %d: name it alone", r.size, maxAll)
	}
	b := Bundle{Name: name, Files: map[string][]byte{}, Path: root, Origin: versions.Origin{Source: r.place.of(e.URI)}}
	for i, f := range e.Files.List {
		if ignored(paths[i]) {
			continue
		}
		data, err := from.Read(ctx, f.URI)
		switch {
		case err != nil:
			return fmt.Errorf("read %s: %w", visible(paths[i]), err)
		case int64(len(data)) != f.Size || digest(data) != f.Digest:
			return fmt.Errorf("%s is not what the server lists: it has %d bytes and the digest %s, and the list says %d and %s", visible(paths[i]), len(data), digest(data), f.Size, f.Digest)
		}
		b.Files[paths[i]] = data
	}
	if is, err := nameOf(b.Files[manifest]); err != nil {
		return err
	} else if is != name {
		return fmt.Errorf("the server names it %q, and its SKILL.md %q", name, is)
	}
	head, err := skills.Frontmatter(string(b.Files[manifest]))
	if err != nil {
		return err
	}
	if !sameJSON(head, e.Frontmatter) {
		return errors.New("the head of its SKILL.md is not what the server lists")
	}
	r.size += size
	r.found.Skills = append(r.found.Skills, b)
	return nil
}

// paths returns the path of each file inside of a skill, and the sum of their sizes. root is the URI of the skill's folder. The error says why the skill cannot
// be taken.
func (f ServedFiles) paths(root string) (paths []string, size int64, err error) {
	if len(f.List) > MaxServedFiles {
		return nil, 0, fmt.Errorf("it has %d files, and may have %d", len(f.List), MaxServedFiles)
	}
	seen := names{}
	for _, file := range f.List {
		in, ok := strings.CutPrefix(file.URI, root+"/")
		if !ok || len(file.URI) > maxURI || strings.ContainsAny(in, "?#") {
			return nil, 0, errors.New("it lists a file that is not in its folder")
		}
		rel, err := cleanURI(in)
		if err != nil {
			return nil, 0, fmt.Errorf("it lists a file with a path that is not valid: %w", err)
		}
		clean, err := seen.add(rel)
		switch {
		case err != nil:
			return nil, 0, err
		case !digestForm().MatchString(file.Digest):
			return nil, 0, fmt.Errorf("it lists %s without a SHA-256 digest", visible(clean))
		case file.Size < 0 || file.Size > MaxServedBytes || size+file.Size > MaxServedBytes:
			return nil, 0, fmt.Errorf("its files have more than %d bytes", MaxServedBytes)
		}
		paths, size = append(paths, clean), size+file.Size
	}
	if seen[fold(manifest)] != manifest {
		return nil, 0, errors.New("it does not list its SKILL.md")
	}
	return paths, size, nil
}

// cleanURI returns the path that the path of a URI names. Each of its parts has to be one name of a file or folder.
func cleanURI(path string) (string, error) {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		name, err := url.PathUnescape(part)
		if err != nil || name == "" || name == "." || name == ".." || strings.ContainsAny(name, `/\`) {
			return "", errors.New("it has a part that is no name of a file or folder")
		}
		parts[i] = name
	}
	return strings.Join(parts, "/"), nil
}

// sameJSON reports whether two JSON texts have the same value.
func sameJSON(a, b json.RawMessage) bool {
	var first, second any
	return json.Unmarshal(a, &first) == nil && json.Unmarshal(b, &second) == nil && reflect.DeepEqual(first, second)
}
