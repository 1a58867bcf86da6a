package source

import (
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
