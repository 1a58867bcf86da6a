package wasm

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
)

// privateDir makes sure that dir exists and that no other user can write machine code into it.
func privateDir(dir string) error {
	if dir == "" {
		return errors.New("the wasm sandbox needs a cache directory")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the cache directory: %w; set HARNESS_CACHE_DIR to one that you may write to", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if problem := shared(info); problem != "" {
		return fmt.Errorf("the cache directory %s %s: it holds code that workers execute; give it to this user alone "+
			"(chmod 700) or set HARNESS_CACHE_DIR to another", dir, problem)
	}
	return nil
}

// moduleVersion returns the version of a module with which this binary was built.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, dep := range info.Deps {
		if dep.Path == path {
			return dep.Version
		}
	}
	return ""
}
