package mcpclient_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// hold is the main function of a program that starts servers, prints the servers' process ids, and waits to be killed. The servers write the process ids of
// their descendants to pidFile.
func hold(pidFile string) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	m := mcpclient.NewManager(mcpclient.Options{})
	for _, kind := range []string{misbehave.Normal, misbehave.Grandchild, misbehave.Escapee, misbehave.Orphan} {
		if err := m.Add(mcpclient.Config{Name: kind, Command: self, Env: misbehave.Env(kind, pidFile)}); err != nil {
			panic(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	servers := m.Start(ctx)
	for _, s := range servers {
		if s.State != mcpclient.StateReady {
			panic(s.Reason)
		}
	}
	for _, s := range servers {
		fmt.Print(s.PID, " ")
	}
	fmt.Println()
	for {
		time.Sleep(time.Hour)
	}
}
