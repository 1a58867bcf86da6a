package disk

// Exposed says why users other than this one can change what is at path: who owns it, its mode, or those of a directory above it. The error
// says what to do; it is nil where only this user, root and the owners in also can. On Windows, where the directories of users are closed to others, and
// for what is not there, it is nil.
func Exposed(path string, also ...int) error { return exposed(path, also) }

// Owner returns the id of the user who owns what is at path; -1 where there are no such ids, or nothing is there.
func Owner(path string) int { return owner(path) }
