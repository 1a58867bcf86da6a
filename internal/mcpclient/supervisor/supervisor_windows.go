package supervisor

import (
	"fmt"
	"os"
)

// Main only prints an error: Windows needs no supervisor, because a job object ends the descendants.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "harness: "+Command+" does not exist on Windows")
	return 2
}
