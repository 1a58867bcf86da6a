package sqlstore

import (
	"cmp"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundSilence makes the kernel give up a connection whose other side has confirmed nothing for silenceLimit. Otherwise the kernel would resend for a
// quarter of an hour, for instance after the server's machine has failed.
func boundSilence(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var err error
	failed := c.Control(func(socket uintptr) {
		err = unix.SetsockoptInt(int(socket), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silenceLimit.Milliseconds()))
	})
	return cmp.Or(failed, err)
}
