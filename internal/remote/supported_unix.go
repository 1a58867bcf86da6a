//go:build linux || darwin

package remote

// Supported reports whether this system says whose process the other side of a socket is.
const Supported = true
