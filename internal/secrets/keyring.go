package secrets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/zalando/go-keyring"
)

// service is the name of the service that the entries in the keyring belong to.
const service = "harness"

// keyringTimeout is the time limit of a request to the keyring. It includes the time that the user takes to unlock the keyring.
const keyringTimeout = 30 * time.Second

// System returns the keyring of the system: Keychain, Credential Manager or, over D-Bus, the Secret Service. It returns nil if there is no keyring.
// env looks up an environment variable.
func System(env func(string) string) Keyring {
	if runtime.GOOS != "darwin" && runtime.GOOS != "windows" && env("DBUS_SESSION_BUS_ADDRESS") == "" {
		// Without a bus, the library would start a D-Bus daemon of its own.
		if _, err := os.Stat(filepath.Join("/run/user", strconv.Itoa(os.Getuid()), "bus")); err != nil {
			return nil
		}
	}
	return system{}
}

type system struct{}

func (system) Get(name string) (string, error) {
	value, err := wait(func() (string, error) { return keyring.Get(service, name) })
	if errors.Is(err, keyring.ErrNotFound) {
		return "", fs.ErrNotExist
	}
	return value, err
}

func (system) Set(name, value string) error {
	_, err := wait(func() (string, error) { return "", keyring.Set(service, name, value) })
	return err
}

func (system) Delete(name string) error {
	_, err := wait(func() (string, error) { return "", keyring.Delete(service, name) })
	if errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return err
}

// wait limits the time of a request, because the library does not. If a request is never answered, its goroutine ends with the process.
func wait(ask func() (string, error)) (string, error) {
	type answer struct {
		value string
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		value, err := ask()
		done <- answer{value, err}
	}()
	timeout := time.NewTimer(keyringTimeout)
	defer timeout.Stop()
	select {
	case got := <-done:
		return got.value, got.err
	case <-timeout.C:
		return "", fmt.Errorf("the keyring of the system did not answer within %s", keyringTimeout)
	}
}
