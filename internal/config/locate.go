package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// FileName is the name of the configuration file.
const FileName = "harness.yaml"

// Locate returns the configuration file: that of --config, of HARNESS_CONFIG, in the working directory, or in the
// user's configuration directory. Without any it returns the path in the working directory, where one would be
// created, and false.
func Locate(e Env) (path string, found bool, err error) {
	path, found, _, err = locate(e, environment(e.Environ, e.GOOS))
	return path, found, err
}

// locate also reports whether the file is in the user's configuration directory; state is elsewhere then.
func locate(e Env, environ map[string]string) (path string, found, personal bool, err error) {
	asked, source := e.ConfigFile, "flag --config"
	if asked == "" {
		asked, source = environ["HARNESS_CONFIG"], "environment variable HARNESS_CONFIG"
	}
	if asked != "" {
		path = absolute(asked, e.Cwd, e.HomeDir)
		if !isFile(path) {
			return "", false, false, &Error{
				Source: source, Problem: "there is no file " + path, Hint: "give the path of a harness.yaml; `harness init` makes one",
			}
		}
		return path, true, false, nil
	}
	local := filepath.Join(e.Cwd, FileName)
	if isFile(local) {
		return local, true, false, nil
	}
	if dir := configDir(e, environ); dir != "" && isFile(filepath.Join(dir, FileName)) {
		return filepath.Join(dir, FileName), true, true, nil
	}
	return local, false, false, nil
}

// isFile reports whether something other than a directory is at path. A file that cannot be examined counts: reading it
// gives the better error.
func isFile(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return !info.IsDir()
}

func configDir(e Env, environ map[string]string) string {
	if e.GOOS == "windows" {
		if dir := environ["APPDATA"]; dir != "" {
			return filepath.Join(dir, "harness")
		}
		return ""
	}
	if e.HomeDir == "" {
		return ""
	}
	return filepath.Join(e.HomeDir, ".config", "harness")
}

// stateDir is where state lives without a project's file; empty if the environment does not tell.
func stateDir(e Env, environ map[string]string) string {
	if e.GOOS == "windows" {
		if dir := environ["LOCALAPPDATA"]; dir != "" {
			return filepath.Join(dir, "harness")
		}
		return ""
	}
	// A relative XDG_DATA_HOME is to be ignored (XDG Base Directory Specification).
	if dir := environ["XDG_DATA_HOME"]; filepath.IsAbs(dir) {
		return filepath.Join(dir, "harness")
	}
	if e.HomeDir == "" {
		return ""
	}
	return filepath.Join(e.HomeDir, ".local", "share", "harness")
}

// absolute resolves a path against dir, and ~ against home.
func absolute(path, dir, home string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && home != "" && (rest == "" || os.IsPathSeparator(rest[0])) {
		return filepath.Join(home, rest)
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	if runtime.GOOS == "windows" && strings.HasPrefix(path, `\`) { // the root of dir's drive
		return filepath.Join(filepath.VolumeName(dir), path)
	}
	return filepath.Join(dir, path)
}
