//go:build !unix

package disk

import "io/fs"

func exposed(string, []int) error { return nil }

func owner(string) int { return -1 }

// shared checks nothing: the cache directory is in the user's profile, to which others cannot write.
func shared(fs.FileInfo) string { return "" }
