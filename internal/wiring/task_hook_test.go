package wiring_test

import (
	"reflect"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// committed is called after each commit of this process; see onCommits.
var committed = func() {}

// walHook is a callback for SQLite's C code. It is a function of the program and no closure, because the garbage collector does not see that it is in use.
func walHook(*libc.TLS, uintptr, uintptr, uintptr, int32) int32 {
	committed()
	return 0
}

// onCommits calls before before each commit of this process to a store. It calls after when the commit is durable, but not yet visible to any caller.
// onCommits is called once, before the store is opened.
func onCommits(before, after func()) {
	committed = after
	hook := walHook
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, _ string) error {
		conn.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 { before(); return 0 })
		c := reflect.ValueOf(conn).Elem() // The driver has no hook that runs after a commit, so SQLite's own hook is used.
		sqlite3.Xsqlite3_wal_hook((*libc.TLS)(c.FieldByName("tls").UnsafePointer()), uintptr(c.FieldByName("db").Uint()),
			*(*uintptr)(unsafe.Pointer(&hook)), 0)
		return nil
	})
}
