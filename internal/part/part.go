// Package part opens the parts of a process at their first use, and explains what to do if a part cannot be opened.
package part

import (
	"errors"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/singleflight"
)

// ErrUnavailable means that a dependency is missing or cannot be reached.
var ErrUnavailable = errors.New("unavailable")

// UnavailableError tells why a part cannot be opened, and what to do. It matches ErrUnavailable.
type UnavailableError struct {
	Err     error
	Setting string // setting to change
	To      string // proposed value
}

func (e *UnavailableError) Unwrap() []error { return []error{e.Err, ErrUnavailable} }

func (e *UnavailableError) Error() string {
	if strings.Contains(e.Err.Error(), e.Setting) { // the error names the setting itself
		return e.Err.Error()
	}
	return e.Err.Error() + "; " + e.Fix()
}

// Unavailable returns an UnavailableError for the error of opening a part; err itself if it is that of another part, which this one needs.
func Unavailable(err error, setting, to string) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return &UnavailableError{Err: err, Setting: setting, To: to}
}

// Fix returns the remedy.
func (e *UnavailableError) Fix() string { return "set " + e.Setting + " to " + e.To }

// Once returns a function that calls open until it succeeds, and from then on returns the opened part. Concurrent callers share one attempt and
// its error; a later caller tries again.
func Once[T any](open func() (T, error)) func() (T, error) {
	var attempt singleflight.Group
	var opened atomic.Pointer[T]
	return func() (T, error) {
		if part := opened.Load(); part != nil {
			return *part, nil
		}
		_, err, _ := attempt.Do("", func() (any, error) {
			if opened.Load() != nil {
				return nil, nil
			}
			part, err := open()
			if err == nil {
				opened.Store(&part)
			}
			return nil, err
		})
		if err != nil {
			var none T
			return none, err
		}
		return *opened.Load(), nil
	}
}
