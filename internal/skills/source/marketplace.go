package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
)

// marketplaceFile is the name of the files in which repositories list their plugins for Claude Code.
const marketplaceFile = "marketplace.json"

// marketplace is the part of such a file that skills need.
type marketplace struct {
	Metadata struct {
		PluginRoot string `json:"pluginRoot"`
	} `json:"metadata"`
	Plugins []struct {
		Name   string          `json:"name"`
		Source json.RawMessage `json:"source"` // a path, or an object that names another repository
		Skills json.RawMessage `json:"skills"` // a path, or a list of paths
	} `json:"plugins"`
}

// listed returns the folders that the plugins of a marketplace file name. Plugins of other repositories are skipped: what one source says about another
// is no reason to fetch it.
func (r *reading) listed(ctx context.Context, t tree, file string) ([]string, error) {
	n, ok := t.nodes[file]
	if !ok || n.problem != "" || n.size > maxFile {
		return nil, fmt.Errorf("%s: %s", visible(file), cmp.Or(n.problem, "there is no such file, or it is too large"))
	}
	texts, err := t.read(ctx, []string{file})
	if err != nil {
		return nil, err
	}
	var m marketplace
	if err := json.Unmarshal(texts[0], &m); err != nil {
		return nil, fmt.Errorf("%s is not a marketplace file: %w", visible(file), err)
	}
	var roots []string
	for _, p := range m.Plugins {
		var base string
		if json.Unmarshal(p.Source, &base) != nil {
			r.skip(p.Name, "the plugin is in another repository, which is not fetched; add it by itself: %s", visible(string(p.Source)))
			continue
		}
		base = path.Join(m.Metadata.PluginRoot, base)
		list, err := stringOrList(p.Skills)
		if err != nil {
			r.skip(p.Name, "skills of the plugin are neither a path nor a list of paths")
			continue
		}
		if list == nil {
			list = []string{"skills"}
		}
		for _, folder := range list {
			folder = path.Join(base, folder)
			if strings.HasPrefix(folder, "/") || folder == ".." || strings.HasPrefix(folder, "../") {
				r.skip(p.Name, "the plugin names a folder outside of the source: %s", visible(folder))
				continue
			}
			if len(t.skillFolders(folder)) == 0 {
				r.skip(folder, "the marketplace file names this folder, and it has no skill")
				continue
			}
			roots = append(roots, folder)
		}
	}
	return roots, nil
}

// stringOrList returns a list of strings, or a string as a list.
func stringOrList(raw json.RawMessage) (list []string, err error) {
	var one string
	if len(raw) == 0 || json.Unmarshal(raw, &list) == nil {
		return list, nil
	}
	if json.Unmarshal(raw, &one) != nil {
		return nil, errors.New("neither a string nor a list of strings")
	}
	return []string{one}, nil
}
