package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"mcp-code-exec-harness/internal/disk"
)

// The labels of containers.
const (
	homeLabel     = "mcp-code-exec-harness.home"     // identifies the directory of the process that created the container
	instanceLabel = "mcp-code-exec-harness.instance" // identifies the process
	pidLabel      = "mcp-code-exec-harness.pid"      // process id, for people
)

// instance identifies this process among the processes that share a directory. Each process locks a file there, and the lock ends with the
// process.
type instance struct {
	dir, home, name string
	lock            *os.File
}

// join creates a directory and this process's file in it.
func join(parent string) (*instance, error) {
	i := &instance{dir: filepath.Join(parent, "docker"), name: rand.Text()}
	if err := os.MkdirAll(i.dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(i.dir, "home")
	if err := disk.Create(file, []byte(rand.Text()), 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	home, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	i.home = string(home)
	if i.lock, err = os.OpenFile(i.file(i.name), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if locked, err := disk.TryLock(i.lock, true); err != nil || !locked {
		return nil, errors.Join(errors.New("a new file is locked"), err, i.lock.Close())
	}
	return i, nil
}

func (i *instance) file(name string) string { return filepath.Join(i.dir, name+".lock") }

// leave ends the instance. If containers of this process are left, the next process that calls Open removes them.
func (i *instance) leave() {
	_ = i.lock.Close()
	_ = os.Remove(i.file(i.name)) // if this fails, dead still reports the process as dead, and a later sweep removes the file
}

// dead reports whether the process with an instance name has ended. It returns false for this process.
func (i *instance) dead(name string) bool {
	if name == i.name || filepath.Base(name) != name {
		return false
	}
	f, err := os.OpenFile(i.file(name), os.O_RDWR, 0)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	locked, err := disk.TryLock(f, true)
	return err == nil && locked
}

// sweep removes old files of processes that have died.
func (i *instance) sweep() {
	entries, _ := os.ReadDir(i.dir)
	for _, e := range entries {
		name, isLock := strings.CutSuffix(e.Name(), ".lock")
		if info, err := e.Info(); isLock && err == nil && time.Since(info.ModTime()) > abandonedAfter && i.dead(name) {
			_ = os.Remove(i.file(name)) // if this fails, a later sweep tries again
		}
	}
}

func (s *Sandbox) labels() map[string]string {
	return map[string]string{homeLabel: s.owner.home, instanceLabel: s.owner.name, pidLabel: strconv.Itoa(os.Getpid())}
}

// abandonedAfter is the age from which a stopped container counts as abandoned by its harness, and from which the file of a dead process is
// removed.
const abandonedAfter = time.Hour

// reap removes the containers of dead processes of this directory. It also removes stopped containers of other processes, if the containers are
// older than abandonedAfter: a container stops when its process ends, unless the container is busy.
func (s *Sandbox) reap() {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	list, err := s.client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", instanceLabel)})
	if err != nil {
		return
	}
	dead := map[string]bool{}
	for _, c := range list.Items {
		name := c.Labels[instanceLabel]
		if _, known := dead[name]; !known && c.Labels[homeLabel] == s.owner.home {
			dead[name] = s.owner.dead(name)
		}
		abandoned := c.State != "running" && time.Since(time.Unix(c.Created, 0)) > abandonedAfter
		if dead[name] || abandoned && name != s.owner.name {
			s.removals.Go(func() { s.remove(c.ID) })
		}
	}
	s.owner.sweep()
}
