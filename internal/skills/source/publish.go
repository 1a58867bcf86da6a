package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/skills"
)

// Artifact returns the file by which an index offers a skill, and its entry: SKILL.md itself if the skill has no other file, else a zip archive. The same
// content has the same digest. The URL is relative to the index. The error says why an index cannot have the skill.
func Artifact(c skills.Content) (Entry, []byte, error) {
	h, err := skills.ReadHeader(string(c[manifest]))
	if err != nil {
		return Entry{}, nil, err
	}
	e := Entry{Name: h.Name, Type: TypeManifest, Description: h.Description, URL: h.Name + "/" + manifest}
	data := c[manifest]
	if len(c) > 1 {
		e.Type, e.URL = TypeArchive, h.Name+".zip"
		if data, err = c.Zip(""); err != nil {
			return Entry{}, nil, err
		}
	}
	e.Digest = digest(data)
	return e, data, nil
}

// Bounds of a skill that an MCP server offers (SEP-2640).
const (
	MaxServedFiles = 512
	MaxServedBytes = 16 << 20
)

// Served is a skill as an MCP server describes it (SEP-2640).
type Served struct {
	URI         string          `json:"uri"`         // URI of SKILL.md
	Frontmatter json.RawMessage `json:"frontmatter"` // head of SKILL.md as a JSON object
	Files       ServedFiles     `json:"resources"`
}

// ServedFiles are all files of a skill, or none if the skill is dynamic: then it has no digests that stay the same.
type ServedFiles struct {
	Dynamic bool
	List    []ServedFile
}

// ServedFile is a file of a skill.
type ServedFile struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"` // sha256: and the digest of the bytes in hexadecimal
	Size   int64  `json:"size"`   // bytes
}

const dynamic = "dynamic"

// MarshalJSON implements json.Marshaler.
func (f ServedFiles) MarshalJSON() ([]byte, error) {
	if f.Dynamic {
		return json.Marshal(dynamic)
	}
	return json.Marshal(f.List)
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *ServedFiles) UnmarshalJSON(text []byte) error {
	var is string
	*f = ServedFiles{}
	if json.Unmarshal(text, &is) == nil && is == dynamic {
		f.Dynamic = true
		return nil
	}
	if err := json.Unmarshal(text, &f.List); err != nil || f.List == nil {
		return errors.New("the resources of a skill are neither a list nor dynamic")
	}
	return nil
}

// ServedURI returns the URI of the folder of a skill, whose path has slashes, or of a file below it.
func ServedURI(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	parts[0] = strings.NewReplacer(":", "%3A", "@", "%40").Replace(parts[0]) // In the authority of a URI, these characters separate its parts.
	return "skill://" + strings.Join(parts, "/")
}

// Serve describes the content of a skill for clients of an MCP server. path is the path of the skill's folder. The error says why the server cannot have the
// skill.
func Serve(path string, c skills.Content, isDynamic bool) (Served, error) {
	h, err := skills.ReadHeader(string(c[manifest]))
	if err != nil {
		return Served{}, err
	}
	s := Served{URI: ServedURI(path + "/" + manifest), Files: ServedFiles{Dynamic: isDynamic}}
	switch s.Frontmatter, err = skills.Frontmatter(string(c[manifest])); {
	case err != nil:
		return Served{}, err
	case path != h.Name && !strings.HasSuffix(path, "/"+h.Name):
		return Served{}, fmt.Errorf("the name in its SKILL.md, %s, is not that of its folder", h.Name)
	case h.Description == "":
		return Served{}, errors.New("its SKILL.md has no description")
	case isDynamic:
		return s, nil
	}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		s.Files.List = append(s.Files.List, ServedFile{ServedURI(path + "/" + name), digest(c[name]), int64(len(c[name]))})
	}
	return s, nil
}
