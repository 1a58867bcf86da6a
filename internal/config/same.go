package config

import (
	"errors"
	"path/filepath"
	"reflect"
)

// Same reports whether two configurations are equal for programs and tasks. It ignores the sections server and log, and how the file was
// found.
func (c *Config) Same(other *Config) bool {
	return reflect.DeepEqual(c.shared(), other.shared())
}

func (c *Config) shared() Config {
	s := *c
	s.Server, s.Log, s.FileOrigin, s.entries = Server{}, Log{}, "", nil
	s.MCPServers = make([]*MCPServer, len(c.MCPServers))
	for i, of := range c.MCPServers {
		server := *of
		server.entries = nil // entries and errors depend on the working directory: they name the file relative to it
		if err, ok := errors.AsType[*Error](server.Err); ok {
			server.Err = &Error{Key: err.Key, Problem: err.Problem}
		}
		s.MCPServers[i] = &server
	}
	return s
}

// Place returns the configuration file that Load would read, or "" if there is none, and the state directory. It fails as Load does.
func Place(e Env) (file, stateDir string, err error) {
	environ := environment(e.Environ, e.GOOS)
	files, err := find(e, environ)
	if err != nil {
		return "", "", err
	}
	if files.how == "" || files.personal {
		stateDir = stateDirOf(e, environ)
	} else {
		stateDir = filepath.Join(filepath.Dir(files.path), "data")
	}
	if files.how != "" {
		file = files.path
	}
	return file, stateDir, nil
}
