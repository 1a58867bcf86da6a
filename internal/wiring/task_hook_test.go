package wiring_test

import (
	"reflect"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// committed is called after each commit of this process, see onCommits.
var committed = func() {}

// walHook is a C function of SQLite's: one that is in the program, for the collector knows nothing of its use.
func walHook(*libc.TLS, uintptr, uintptr, uintptr, int32) int32 {
	committed()
	return 0
}

// onCommits calls before before each commit of this process to a store, and after behind it, when it is durable and
// nobody has learned of it yet. It is called once, before the store is opened.
func onCommits(before, after func()) {
	committed = after
	hook := walHook
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, _ string) error {
		conn.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 { before(); return 0 })
		c := reflect.ValueOf(conn).Elem() // the driver offers no hook for what comes after: SQLite's own
		sqlite3.Xsqlite3_wal_hook((*libc.TLS)(c.FieldByName("tls").UnsafePointer()), uintptr(c.FieldByName("db").Uint()),
			*(*uintptr)(unsafe.Pointer(&hook)), 0)
		return nil
	})
}
