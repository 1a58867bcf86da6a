package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"mcp-code-exec-harness/internal/files"
)

// SaveResult writes data that a run produced into the workspace of the run's session. It returns the path by which later programs find the data.
func (s *Service) SaveResult(user, session, runID, name string, data []byte) (string, error) {
	at := path.Join("results", runID, name)
	if err := s.saveFile(cmp.Or(user, DefaultUser), session, at, data); err != nil {
		return "", fmt.Errorf("save %s: %w", path.Join("/workspace", at), err)
	}
	return path.Join("/workspace", at), nil
}

// Workspace opens the files of a session. The caller closes the Dir.
func (s *Service) Workspace(user, session string) (*files.Dir, error) {
	work, err := s.opt.Workspace()
	if err != nil {
		return nil, err
	}
	return work.Open(user, session)
}

func (s *Service) saveFile(user, session, at string, data []byte) error {
	if session == "" {
		return errors.New("the run has no session, whose workspace would keep it; name one")
	}
	dir, err := s.Workspace(user, session)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.WriteFile(at, data)
}

// ReadFile returns a file of a session's workspace, unchanged. given is the number of bytes at the beginning of the file that the user of the
// session put there; programs wrote the rest. If the file has more than most bytes, ReadFile returns an error.
func (s *Service) ReadFile(user, session, at string, most int64) (data []byte, given int64, err error) {
	dir, err := s.Workspace(user, session)
	if err != nil {
		return nil, 0, err
	}
	defer dir.Close()
	by := dir.Hand(at)
	data, err = dir.ReadFile(at, 0, most+1)
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path.Join("/workspace", at), most)
	}
	if dir.Hand(at) != by { // the file has changed meanwhile
		by = files.Hand{}
	}
	return data, by.Given, err
}

// ListFiles lists a directory of a session's workspace with everything below it.
func (s *Service) ListFiles(ctx context.Context, user, session, at string) ([]files.Entry, error) {
	dir, err := s.Workspace(user, session)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	all, err := dir.ReadDir(ctx, at, true)
	if at == "." && errors.Is(err, fs.ErrNotExist) { // nothing was written yet
		return nil, nil
	}
	return all, err
}
