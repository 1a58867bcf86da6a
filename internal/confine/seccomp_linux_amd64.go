package confine

import "golang.org/x/sys/unix"

var nativeModeCalls = []modeCall{
	{number: unix.SYS_CHMOD, mode: 1}, {number: unix.SYS_CREAT, mode: 1}, {number: unix.SYS_MKNOD, mode: 1}, {number: unix.SYS_OPEN, mode: 2, flags: 1},
}

var nativeDenied = []uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS_CREATE_MODULE}
