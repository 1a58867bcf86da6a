package walls

import "golang.org/x/sys/unix"

// Architecture is the architecture of this machine in filters.
const Architecture = unix.AUDIT_ARCH_X86_64
