package jail

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_X86_64

var nativeCalls = []uint32{unix.SYS_POLL, unix.SYS_EPOLL_WAIT, unix.SYS_ARCH_PRCTL}
