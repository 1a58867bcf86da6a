//go:build !linux

package sqlstore

import "syscall"

func boundSilence(string, string, syscall.RawConn) error { return nil }
