package jail

import "golang.org/x/sys/unix"

var nativeCalls []uint32

var nativeNodeCalls = []uint32{unix.SYS_FSTATAT}
