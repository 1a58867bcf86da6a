package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// full is a full file and the number of its first line.
type full struct {
	path  string
	first int64
}

func fullName(path string, first int64) string { return fmt.Sprintf("%s.%012d", path, first) }

// fullFiles lists the full files of a log, the oldest first.
func fullFiles(path string) (all []full, err error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		suffix, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+".")
		first, err := strconv.ParseInt(suffix, 10, 64)
		if ok && err == nil && len(suffix) >= 12 {
			all = append(all, full{filepath.Join(filepath.Dir(path), e.Name()), first})
		}
	}
	slices.SortFunc(all, func(a, b full) int { return int(a.first - b.first) })
	return all, nil
}

// firstOf returns the number of a file's first line.
func firstOf(f *os.File) (int64, error) {
	text, err := bufio.NewReaderSize(io.NewSectionReader(f, 0, maxLine), maxLine).ReadSlice('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	p, err := parse(text)
	if err != nil {
		return 1, nil //nolint:nilerr // a malformed first line counts as line 1; Verify reports what is wrong with it
	}
	return p.Seq, nil
}
