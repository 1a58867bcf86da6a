package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// output is a file that is written as a whole or not at all: what was there before stays until commit.
type output struct {
	*os.File
	path string
}

func createOutput(path string) (*output, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory; name a file in it", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp") // mode 0600
	if err != nil {
		var failed *os.PathError // it names the temporary file
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, fmt.Errorf("%s: %w; name a file in a directory that exists and that you may write to", path, err)
	}
	return &output{f, path}, nil
}

// commit puts the file in its place.
func (o *output) commit() error {
	if err := o.Close(); err != nil {
		return err
	}
	return os.Rename(o.Name(), o.path)
}

// abandon removes a file that was not committed.
func (o *output) abandon() {
	_ = o.Close()
	_ = os.Remove(o.Name()) // not there any more after commit
}
