package servers

import (
	"os"
)

// replaceFile gives the file its content in one step: a reader finds the old file or the whole new one.
func replaceFile(root *os.Root, name string, data []byte) error {
	temporary := name + ".tmp"
	if err := root.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	return root.Rename(temporary, name)
}
