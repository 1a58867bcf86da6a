package harness_test

import "runtime/debug"

func freeMemory() { debug.FreeOSMemory() }
