package seal

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// commonStore is a store that several machines use. worker is the name of the process that works its queue.
type commonStore struct {
	values map[string][]byte
	worker string
	alone  bool // only one machine uses the store
}

func (s *commonStore) Remote() bool { return !s.alone }

func (s *commonStore) OtherWorker(context.Context) (string, error) { return s.worker, nil }

func (s *commonStore) Replace(_ context.Context, subject string, old, value []byte) ([]byte, error) {
	if is, ok := s.values[subject]; ok == (old != nil) && bytes.Equal(is, old) {
		s.values[subject] = value
	}
	return s.values[subject], nil
}

// keyOf returns the result of Key in a process with its own secret and these master keys.
func (s *commonStore) keyOf(t *testing.T, own string, masters ...string) (string, error) {
	t.Helper()
	c := Common{
		Keys:  func() (*Keys, error) { return newKeys(t, masters...), nil },
		Store: func() (CommonStore, error) { return s, nil }, Logger: slog.New(slog.DiscardHandler),
	}
	key, err := c.Key(t.Context(), "approvals.key", func() ([]byte, error) { return []byte(own), nil })
	return string(key), err
}

func TestCommon(t *testing.T) {
	t.Parallel()
	s := &commonStore{values: map[string][]byte{}}
	check := func(what, own, want string, masters ...string) {
		t.Helper()
		if got, err := s.keyOf(t, own, masters...); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", what, got, err, want)
		}
	}
	check("the first process", "first", "first", "a")
	check("another process", "second", "first", "a")
	s.worker = "process 7 on x"
	if key, err := s.keyOf(t, "third", "b"); key != "" || err == nil || !strings.Contains(err.Error(), s.worker) || strings.Contains(err.Error(), "first") {
		t.Errorf("a process with another key: %q, %v", key, err)
	}
	check("a new key before the old one", "second", "first", "b", "a")
	check("the new key alone", "second", "first", "b")
	s.worker = ""
	check("another key, and no other process", "third", "third", "c")
	for subject, sealed := range s.values {
		if bytes.Contains(sealed, []byte("third")) {
			t.Errorf("%s is not sealed: %q", subject, sealed)
		}
		s.values[subject] = append(sealed[:len(sealed)-1:len(sealed)-1], sealed[len(sealed)-1]^1)
	}
	if _, err := s.keyOf(t, "fourth", "c"); !errors.Is(err, ErrDamaged) {
		t.Errorf("a damaged secret: %v", err)
	}
	s.alone = true
	check("a store of one machine", "own", "own", "a")
}
