package walls

import "golang.org/x/sys/unix"

// Architecture is that of this machine, as filters know it.
const Architecture = unix.AUDIT_ARCH_AARCH64
