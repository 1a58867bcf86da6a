package servers

import (
	"os"
)

// replaceFile replaces a file in one step: a reader finds the complete old or new content.
func replaceFile(root *os.Root, name string, data []byte) error {
	temporary := name + ".tmp"
	if err := root.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	return root.Rename(temporary, name)
}
