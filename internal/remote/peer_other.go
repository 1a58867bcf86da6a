//go:build !linux && !darwin

package remote

import (
	"errors"
	"net"
)

// samePeer fails because this system does not report which user's process is on the other side of a socket.
func samePeer(net.Conn) (pid int, err error) { return 0, errors.ErrUnsupported }

// sameFiles always fails, like samePeer.
func sameFiles(int) error { return errElsewhere }
