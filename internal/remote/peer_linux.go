package remote

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// samePeer checks that the other side of a connection is a process of this user, and returns its process ID, or 0 if the ID is not known.
func samePeer(c net.Conn) (pid int, err error) {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	if failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); failed != nil || err != nil {
		return 0, errors.Join(failed, err)
	}
	if int(peer.Uid) != os.Geteuid() {
		return 0, errOther
	}
	return int(peer.Pid), nil
}

// sameFiles checks that a process sees the same files as this process. A process in a container may share only the state directory.
func sameFiles(pid int) error {
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return fmt.Errorf("%w: %w", errElsewhere, err)
	}
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil || ours != theirs {
		return errElsewhere
	}
	var root, own syscall.Stat_t
	if syscall.Stat(fmt.Sprintf("/proc/%d/root/.", pid), &root) != nil || syscall.Stat("/", &own) != nil || root.Dev != own.Dev || root.Ino != own.Ino {
		return errElsewhere
	}
	return nil
}
