//go:build !embedsite

package site

// archive is nil: there are no pages.
var archive []byte
