//go:build !embedchild

package childprogram

// embedded is empty: child processes execute the harness's own binary.
var embedded []byte
