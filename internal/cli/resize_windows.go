package cli

import "os"

// resizes never tells: commands are not executed by servers here.
func resizes() (resized <-chan os.Signal, stop func()) { return nil, func() {} }
