package jail

import "golang.org/x/sys/unix"

var nativeCalls = []uint32{unix.SYS_POLL, unix.SYS_EPOLL_WAIT, unix.SYS_ARCH_PRCTL}

var nativeNodeCalls = []uint32{
	unix.SYS_OPEN, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_ACCESS, unix.SYS_READLINK, unix.SYS_DUP2, unix.SYS_PIPE, unix.SYS_TIME,
	unix.SYS_NEWFSTATAT,
}
