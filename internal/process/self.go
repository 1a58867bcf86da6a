package process

import "slices"

// Self returns the path of a program of the harness and its first arguments, which an internal command follows. The result is for one start, because
// someone may empty the cache directory, which can contain the program. The caller owns args. A Self is safe for concurrent use.
type Self func() (path string, args []string)

// SelfAt returns a Self that always returns path and args.
func SelfAt(path string, args ...string) Self {
	return func() (string, []string) { return path, slices.Clone(args) }
}
