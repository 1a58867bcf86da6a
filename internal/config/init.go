package config

import (
	_ "embed" // the template
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed template.yaml
var template []byte

// SchemaName is the file that the template refers editors to.
const SchemaName = "harness.schema.json"

// Template returns a harness.yaml in which every key is explained and none is set.
func Template() []byte { return template }

// Init writes the template and its schema into a directory and returns the paths. An existing harness.yaml is never
// overwritten: the error then matches fs.ErrExist.
func Init(dir string) ([]string, error) {
	file, schema := filepath.Join(dir, FileName), filepath.Join(dir, SchemaName)
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("%s exists already (%w); edit it, or remove it first", file, fs.ErrExist)
	case err != nil:
		return nil, fmt.Errorf("create %s: %w", FileName, err)
	}
	_, err = f.Write(Template())
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("write %s: %w", file, errors.Join(err, os.Remove(file)))
	}
	if err := writeAtomic(schema, Schema(), 0o644); err != nil {
		return []string{file}, err
	}
	return []string{file, schema}, nil
}
