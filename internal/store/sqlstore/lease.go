package sqlstore

// lease is a process's claim to the tasks and runs that it works on. The row of a task or run has an owner (the id of a lease) and a fencing
// number, which grows with every change of owner. Every commit of a task or run names both, so that a process that was taken for dead can no
// longer write. Methods are safe for concurrent use.
type lease interface {
	// ID returns the owner id of this process.
	ID() string
	// Claim makes this process an owner; it may be called again.
	Claim() error
	// Alive reports whether the process with the given owner id lives.
	Alive(id string) (bool, error)
	// Others reports whether another process may be an owner. It takes microseconds.
	Others() bool
	// Describe returns a text for people that names the process with the given owner id.
	Describe(id string) string
	// Release ends the lease: other processes take over what this process owns.
	Release() error
}

var _ lease = (*fileLease)(nil)
