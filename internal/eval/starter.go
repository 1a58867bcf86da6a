package eval

import (
	"embed"
	"io/fs"
)

// StarterName is the name of the suite in the binary.
const StarterName = "starter"

//go:embed starter
var starter embed.FS

// Starter returns the folder of the suite in the binary.
func Starter() fs.FS {
	files, _ := fs.Sub(starter, StarterName) // the folder is embedded
	return files
}
