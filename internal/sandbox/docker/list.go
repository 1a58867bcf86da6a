package docker

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"
)

// Listing lists the images and the containers of harnesses in an engine.
type Listing struct {
	Images     []Image     `json:"images"`
	Containers []Container `json:"containers"`
}

// Image is an image with the configured name and any tag.
type Image struct {
	ID      string    `json:"id"`
	Names   []string  `json:"names"`
	Used    bool      `json:"used"` // whether new containers are created from it
	Size    int64     `json:"size"` // bytes
	Created time.Time `json:"created"`
}

// Container is a container that a harness made, on this machine or another one.
type Container struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Image   string    `json:"image"` // id of the image
	State   string    `json:"state"` // state in the words of the engine: running, exited
	Created time.Time `json:"created"`
	Pid     string    `json:"pid"`  // process id of its harness, on the machine of the harness
	Left    bool      `json:"left"` // whether its harness has ended, so that the next harness removes the container
}

// List returns the images called name (empty: DefaultImage) and the containers of harnesses in an engine, the newest first. dir is Options.Dir.
func List(ctx context.Context, engine Engine, name, dir string) (*Listing, error) {
	c, err := engine.connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := reach(ctx, c); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	l := &Listing{}
	if l.Images, err = images(ctx, c, cmp.Or(name, DefaultImage)); err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	if l.Containers, err = allContainers(ctx, c, dir); err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	return l, nil
}

func images(ctx context.Context, c *client.Client, name string) ([]Image, error) {
	used, err := c.ImageInspect(ctx, name)
	if err != nil && !notFound(err) {
		return nil, err
	}
	repository, _, _ := strings.Cut(name, "@")
	if at := strings.LastIndex(repository, ":"); at > strings.LastIndex(repository, "/") {
		repository = repository[:at]
	}
	list, err := c.ImageList(ctx, client.ImageListOptions{Filters: client.Filters{}.Add("reference", repository)})
	if err != nil {
		return nil, err
	}
	all := make([]Image, len(list.Items))
	for i, image := range list.Items {
		all[i] = Image{ID: image.ID, Names: image.RepoTags, Used: image.ID == used.ID, Size: image.Size, Created: time.Unix(image.Created, 0).UTC()}
		slices.Sort(all[i].Names)
	}
	slices.SortFunc(all, func(a, b Image) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}

func allContainers(ctx context.Context, c *client.Client, dir string) ([]Container, error) {
	list, err := c.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", instanceLabel)})
	if err != nil {
		return nil, err
	}
	here := &instance{dir: filepath.Join(dir, "docker")}
	if home, err := os.ReadFile(filepath.Join(here.dir, "home")); err == nil { // a missing file means that no harness has used this directory
		here.home = string(home)
	}
	all := make([]Container, len(list.Items))
	for i, item := range list.Items {
		all[i] = Container{
			ID: item.ID, Image: item.ImageID, State: string(item.State), Created: time.Unix(item.Created, 0).UTC(), Pid: item.Labels[pidLabel],
			Left: here.home != "" && item.Labels[homeLabel] == here.home && here.dead(item.Labels[instanceLabel]),
		}
		if len(item.Names) > 0 {
			all[i].Name = strings.TrimPrefix(item.Names[0], "/")
		}
	}
	slices.SortFunc(all, func(a, b Container) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}
