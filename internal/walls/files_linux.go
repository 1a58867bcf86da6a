package walls

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights of Landlock for a path and everything below it, as far as the kernel supports them.
const (
	Execute = unix.LANDLOCK_ACCESS_FS_EXECUTE
	Read    = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	Write   = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM

	// ofFiles are the rights that apply to files other than directories.
	ofFiles = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// Grant is a path with the rights for it.
type Grant struct {
	Path   string
	Rights uint64
}

// Landlock returns the version of Landlock in the kernel.
func Landlock() (version int, err error) {
	const askVersion = 1 // LANDLOCK_CREATE_RULESET_VERSION
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, askVersion)
	if errno != 0 {
		return 0, fmt.Errorf("the kernel has no Landlock (%w); use Linux 5.13 or later with landlock in its list of security modules", errno)
	}
	return int(v), nil
}

// Rules returns the descriptor of a ruleset. It forbids all files without a grant, TCP unless network is true, abstract sockets, and signals to
// other processes, as far as the kernel supports it. The caller applies the ruleset to its threads, and closes the descriptor.
func Rules(network bool, grants []Grant) (fd uintptr, err error) {
	version, err := Landlock()
	if err != nil {
		return 0, err
	}
	rules := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1} // rights of version 1: this bit and all lower ones
	size := unsafe.Offsetof(rules.Handled_access_net)
	if version >= 2 {
		rules.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		rules.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 && !network {
		rules.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if version >= 4 {
		size = unsafe.Offsetof(rules.Scoped)
	}
	if version >= 5 {
		rules.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		rules.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(rules.Quiet_access_fs)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), size, 0)
	if errno != 0 {
		return 0, fmt.Errorf("make rules of Landlock: %w", errno)
	}
	for _, g := range grants {
		if err := g.add(fd, rules.Handled_access_fs); err != nil {
			unix.Close(int(fd))
			return 0, fmt.Errorf("except %s from Landlock: %w", g.Path, err)
		}
	}
	return fd, nil
}

// add adds the grant to a ruleset. known are the rights that the ruleset handles.
func (g Grant) add(rules uintptr, known uint64) error {
	fd, err := unix.Open(g.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return err
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: g.Rights & known, Parent_fd: int32(fd)}
	if info.Mode&unix.S_IFMT != unix.S_IFDIR {
		rule.Allowed_access &= ofFiles
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, rules, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Root makes a directory the read-only root of this process. A file system must be mounted on it with the given flags. Nothing else of the
// machine stays reachable. The new root becomes the working directory.
func Root(dir string, flags uintptr) error {
	if err := unix.Mount("", dir, "", flags|unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	if err := unix.Chdir(dir); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old root now lies on top of the new one
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	return unix.Chdir("/")
}
