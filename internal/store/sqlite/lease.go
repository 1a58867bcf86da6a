package sqlite

// lease is a process's claim to the tasks and runs that it works on. Ownership is a row's owner, the id of a lease, together with a
// fencing number that grows with every change of owner; every commit of a task or run names both, so that a process which was
// taken for dead cannot write any more. Methods are safe for concurrent use.
type lease interface {
	// ID names this process.
	ID() string
	// Claim makes this process an owner; it may be called again.
	Claim() error
	// Alive says whether the process of an owner's id lives.
	Alive(id string) (bool, error)
	// Others says whether another process may be an owner; it takes microseconds.
	Others() bool
	// Describe names the process of an owner's id for people.
	Describe(id string) string
	// Release ends the lease: other processes take over what this one owns.
	Release() error
}

var _ lease = (*fileLease)(nil)
