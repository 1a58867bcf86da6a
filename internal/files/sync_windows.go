package files

import "os"

// syncDir does nothing: Windows cannot sync a directory, NTFS journals the rename.
func syncDir(*os.Root) error { return nil }
