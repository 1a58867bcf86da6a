package config

import (
	"errors"
	"path/filepath"
	"reflect"
)

// Same reports whether two configurations are the same for programs and tasks. The sections server and log, and how the file was found, do not matter.
func (c *Config) Same(other *Config) bool {
	return reflect.DeepEqual(c.shared(), other.shared())
}

func (c *Config) shared() Config {
	s := *c
	s.Server, s.Log, s.FileOrigin, s.entries = Server{}, Log{}, "", nil
	s.MCPServers = make([]*MCPServer, len(c.MCPServers))
	for i, of := range c.MCPServers {
		server := *of
		server.entries = nil // they and errors name the file as seen from the working directory
		if err, ok := errors.AsType[*Error](server.Err); ok {
			server.Err = &Error{Key: err.Key, Problem: err.Problem}
		}
		s.MCPServers[i] = &server
	}
	return s
}

// Place returns the configuration file that Load would read, empty for none, and the state directory. The errors are those of Load.
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
