//go:build !linux && !darwin

package remote

// Supported reports whether this system can tell which user's process is on the other side of a socket.
const Supported = false
