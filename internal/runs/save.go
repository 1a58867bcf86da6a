package runs

import (
	"errors"
	"fmt"
	"path"
)

// SaveResult keeps what a run produced in the workspace of its session, where later programs of the session find it, and
// returns the path that they know it by. A run without a session has no workspace that survives it: that is an error.
func (s *Service) SaveResult(user, session, runID, name string, data []byte) (string, error) {
	at := path.Join("results", runID, name)
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("save %s: %w", path.Join("/workspace", at), err)
	}
	if session == "" {
		return fail(errors.New("the run has no session, whose workspace would keep it; name one"))
	}
	if user == "" {
		user = DefaultUser
	}
	work, err := s.opt.Workspace()
	if err != nil {
		return fail(err)
	}
	dir, err := work.Dir(user, session)
	if err != nil {
		return fail(err)
	}
	defer dir.Close()
	if err := dir.WriteFile(at, data); err != nil {
		return fail(err)
	}
	return path.Join("/workspace", at), nil
}
