package disk

import (
	"slices"

	"golang.org/x/sys/unix"
)

// keepsModes reports whether the file system of path stores a mode for each file. Windows drives (in WSL and in shares) and FAT show the same mode for all
// files, and chmod has no effect there.
func keepsModes(path string) bool {
	const exFAT, fuse, ntfs, cifs, smb2 = 0x2011bab0, 0x65735546, 0x7366746e, 0xff534d42, 0xfe534d42
	var stat unix.Statfs_t
	return unix.Statfs(path, &stat) != nil || !slices.Contains([]int64{unix.V9FS_MAGIC, unix.MSDOS_SUPER_MAGIC, exFAT, fuse, ntfs, cifs, smb2}, int64(stat.Type)&0xffffffff) //nolint:unconvert // Type has 32 bits elsewhere
}
