package n8n

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"
	"time"
)

// Sources of templates, and the prefixes of their ids.
const (
	sourceFolder, sourceInstance, sourcePublic = "folder", "instance", "public"

	sourceInstanceID, sourcePublicID = "workflow:", "public:"
)

// template is a workflow that serves as a template.
type template struct {
	id, source        string
	name, description string
	tags              []string
	nodes             []object
	workflow          object // stored workflow
	problem           string // reason why the template cannot be used; empty if it can be used
}

// newTemplate returns the template of a stored workflow.
func newTemplate(id, source string, w object) template {
	flow := workflow(w)
	t := template{id: id, source: source, name: flow.name(), tags: flow.tags(), nodes: flow.nodes(), workflow: w}
	t.description = cmp.Or(text(w, "description"), text(objectAt(w, "meta"), "description"), noted(t.nodes))
	t.name = cmp.Or(t.name, path.Base(id))
	return t
}

// noted returns the text of the first note on the canvas.
func noted(nodes []object) string {
	for _, n := range nodes {
		if text(n, "type") == noteType {
			if content := strings.TrimLeft(text(objectAt(n, "parameters"), "content"), "# \n"); content != "" {
				return content
			}
		}
	}
	return ""
}

// queryUnpinned returns a query that lists workflows and leaves out their pinned data.
func queryUnpinned() url.Values { return url.Values{"excludePinnedData": {"true"}} }

// Bounds of a folder of templates.
const (
	maxTemplates    = 2000
	maxTemplateSize = 4 << 20 // maximum size of a file in bytes
	maxFolderWalk   = 20_000  // maximum number of files and folders that are visited
)

// templateFolder reads workflows from the files of a folder and its subfolders. It reads a file again if its size or time has changed. It is
// safe for concurrent use.
type templateFolder struct {
	dir string // path of the folder; empty if there is no folder

	mu    sync.Mutex
	known map[string]knownFile // files that were read before, by path in the folder
}

type knownFile struct {
	size    int64
	changed time.Time
	found   []template
}

var errEnough = errors.New("enough")

// templates returns the templates of the folder, ordered by path.
func (f *templateFolder) templates(ctx context.Context) ([]template, error) {
	if f.dir == "" {
		return nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	root, err := os.OpenRoot(f.dir) // links do not lead out of the folder
	if err != nil {
		return nil, refusef(http.StatusNotImplemented, "n8n.templates: %v", err)
	}
	defer func() { _ = root.Close() }()
	var all []template
	now := map[string]knownFile{}
	seen := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if seen++; seen > maxFolderWalk {
			return fmt.Errorf("%s holds more than %d files and folders; name a folder for templates alone", f.dir, maxFolderWalk)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return nil //nolint:nilerr // a folder that cannot be read holds no templates
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir() || !strings.EqualFold(path.Ext(name), ".json"):
			return nil
		}
		file := f.read(root, name)
		now[name] = file
		all = append(all, file.found...)
		if len(all) >= maxTemplates {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, refusef(http.StatusNotImplemented, "n8n.templates: %v", err)
	}
	f.known = now
	return all[:min(len(all), maxTemplates)], nil
}

// read returns the templates in a file; it does not read the file again if the file has not changed.
func (f *templateFolder) read(root *os.Root, name string) knownFile {
	id := strings.TrimSuffix(name, path.Ext(name))
	broken := func(err error) knownFile {
		return knownFile{found: []template{{id: id, source: sourceFolder, name: path.Base(id), problem: err.Error()}}}
	}
	file, err := root.Open(name)
	if err != nil {
		return broken(err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	switch {
	case err != nil:
		return broken(err)
	case !info.Mode().IsRegular():
		return broken(errors.New("it is no regular file"))
	case info.Size() > maxTemplateSize:
		return broken(fmt.Errorf("the file is larger than %d MiB", maxTemplateSize>>20))
	}
	if known, has := f.known[name]; has && known.size == info.Size() && known.changed.Equal(info.ModTime()) {
		return known
	}
	data, err := io.ReadAll(io.LimitReader(file, maxTemplateSize))
	var content any
	if err == nil {
		err = decode(data, &content)
	}
	if err != nil {
		return broken(fmt.Errorf("it cannot be read: %w", err))
	}
	read := knownFile{size: info.Size(), changed: info.ModTime()}
	several, is := content.([]any)
	if !is {
		several = []any{content}
	}
	for n, v := range several {
		each := id
		if is { // n8n export:workflow --all writes a list
			each = fmt.Sprintf("%s/%d", id, n+1)
		}
		w := asWorkflow(v)
		if w == nil {
			read.found = append(read.found, template{id: each, source: sourceFolder, name: path.Base(id), problem: "it is no workflow: it has no nodes"})
			continue
		}
		read.found = append(read.found, newTemplate(each, sourceFolder, w))
	}
	return read
}

// asWorkflow returns the workflow in a file or an answer: v itself, or its member workflow with the name and description of v; nil if there is none.
func asWorkflow(v any) object {
	o, is := v.(object)
	if !is {
		return nil
	}
	if _, has := o["nodes"].([]any); has && o["connections"] != nil {
		return o
	}
	inner := objectAt(o, "workflow")
	if inner == nil {
		return nil
	}
	found := asWorkflow(inner)
	if found == nil {
		return nil
	}
	for _, key := range []string{"name", "description"} {
		if text(found, key) == "" && text(o, key) != "" {
			found[key] = o[key]
		}
	}
	return found
}
