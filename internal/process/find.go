package process

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Find returns the absolute path of the program that command names for a child with the environment env ("NAME=value") and the working
// directory dir (empty: that of this process). Find looks command up in the child's PATH, or relative to dir if it contains a
// separator; exec.LookPath would use this process's PATH. On Windows, Find tries the extensions of PATHEXT,
// and does not search the working directory, where a data file could pass for a program. On all systems, it skips relative entries of
// PATH. The error is an *[exec.Error] with [exec.ErrNotFound] or [fs.ErrPermission].
func Find(command, dir string, env []string) (string, error) {
	return find(command, dir, env, runtime.GOOS == "windows")
}

func find(command, dir string, env []string, windows bool) (string, error) {
	extensions := []string{""}
	if windows {
		extensions = suffixes(command, variable(env, "PATHEXT", windows))
	}
	if strings.ContainsRune(command, filepath.Separator) || strings.Contains(command, "/") || filepath.VolumeName(command) != "" {
		path := command
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return "", &exec.Error{Name: command, Err: err}
		}
		return program(path, command, extensions, windows)
	}
	failure := error(&exec.Error{Name: command, Err: exec.ErrNotFound})
	for _, entry := range filepath.SplitList(variable(env, "PATH", windows)) {
		if !filepath.IsAbs(entry) || command == "" {
			continue
		}
		path, err := program(filepath.Join(entry, command), command, extensions, windows)
		if err == nil {
			return path, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			failure = err
		}
	}
	return "", failure
}

// program returns path with the first extension for which there is an executable file.
func program(path, command string, extensions []string, windows bool) (string, error) {
	err := exec.ErrNotFound
	for _, extension := range extensions {
		info, statErr := os.Stat(path + extension)
		switch {
		case statErr != nil || info.IsDir():
		case windows || info.Mode()&0o111 != 0:
			return path + extension, nil
		default:
			err = fs.ErrPermission
		}
	}
	return "", &exec.Error{Name: command, Err: err}
}

// suffixes returns the suffixes to try for a command, in order. The empty suffix comes first if the command has an extension. The extensions of
// programs follow.
func suffixes(command, list string) []string {
	list = cmp.Or(list, ".COM;.EXE;.BAT;.CMD")
	var all []string
	if filepath.Ext(command) != "" {
		all = append(all, "")
	}
	for extension := range strings.SplitSeq(strings.ToLower(list), ";") {
		if extension != "" {
			all = append(all, "."+strings.TrimPrefix(extension, "."))
		}
	}
	return all
}

// variable returns the value of an environment variable; the last entry with the name counts.
func variable(env []string, name string, windows bool) (value string) {
	for _, entry := range env {
		if key, v, ok := strings.Cut(entry, "="); ok && (key == name || windows && strings.EqualFold(key, name)) {
			value = v
		}
	}
	return value
}
