package disk

// Exposed returns an error if other users can change the file or directory at path, because of its owner or mode, or because of the owner or mode of a
// directory above it. The error says what to do. The current user, root and the users in the second parameter are allowed. Exposed returns nil on Windows,
// where other users cannot access a user's directories, and if nothing exists at path.
func Exposed(path string, also ...int) error { return exposed(path, also) }

// Owner returns the id of the user who owns the file or directory at path; -1 if the system has no such ids, or nothing exists at path.
func Owner(path string) int { return owner(path) }
