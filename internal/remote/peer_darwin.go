package remote

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// samePeer checks that the other side of a connection is a process of this user.
func samePeer(c net.Conn) (pid int, err error) {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Xucred
	if failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED) }); failed != nil || err != nil {
		return 0, errors.Join(failed, err)
	}
	if int(peer.Uid) != os.Geteuid() {
		return 0, errOther
	}
	return 0, nil
}

// sameFiles accepts every process. On macOS all processes see the same files, except in another root directory, which only root can set.
func sameFiles(int) error { return nil }
