//go:build !linux && !darwin

package remote

import (
	"errors"
	"net"
)

// samePeer fails: this system does not say whose process the other side of a socket is.
func samePeer(net.Conn) (pid int, err error) { return 0, errors.ErrUnsupported }

// sameFiles fails, too.
func sameFiles(int) error { return errElsewhere }
