package jail

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_AARCH64

var nativeCalls []uint32

var nativeNodeCalls = []uint32{unix.SYS_FSTATAT}
