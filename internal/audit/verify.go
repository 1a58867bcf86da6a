package audit

import (
	"bufio"
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Report is the result of checking a log.
type Report struct {
	Files   int    `json:"files"`
	Lines   int64  `json:"lines"`
	First   int64  `json:"first"` // number of the first line; earlier lines were removed because of MaxFiles, except those that Kept counts
	Kept    int64  `json:"kept"`  // number of lines of removed files in the .kept file
	Last    int64  `json:"last"`
	Hash    string `json:"hash"`    // hash of the last line, for comparison with one that was noted elsewhere
	Unkeyed int64  `json:"unkeyed"` // number of lines whose hash was made without a key, although a key is configured now
	Gaps    int64  `json:"gaps"`    // number of lines that report lost or missing events
	// Problem is the first problem, or empty; File and Line are its place.
	Problem string `json:"problem,omitempty"`
	File    string `json:"file,omitempty"`
	Line    int64  `json:"line,omitempty"` // line in the file, from 1
}

// Summary describes the report on the log at path in words.
func (r *Report) Summary(path string) string {
	if r.Problem != "" {
		where := cmp.Or(r.File, path)
		if r.Line > 0 {
			where += fmt.Sprintf(":%d", r.Line)
		}
		return where + ": " + r.Problem
	}
	if r.Lines == 0 {
		return path + " has no lines. If events were recorded before, they were removed: compare with what the server's log said at its last stop"
	}
	text := fmt.Sprintf("%s is whole: %d lines in %d files", path, r.Lines, r.Files)
	text += fmt.Sprintf(", number %d to %d, the last with the hash %s", r.First, r.Last, r.Hash)
	if r.First > 1 {
		text += fmt.Sprintf("\nlines 1 to %d were removed because the log was full (audit.maxSize, audit.maxFiles)", r.First-1)
		if r.Kept > 0 {
			text += fmt.Sprintf("; %d of them, such as changes of keys and decisions, are in %s.kept", r.Kept, path)
		}
	}
	if r.Gaps > 0 {
		text += fmt.Sprintf("\n%d lines say that events before them could not be written", r.Gaps)
	}
	if r.Unkeyed > 0 {
		text += fmt.Sprintf("\n%d lines were written without a key: anyone who can write the file could have forged them", r.Unkeyed)
	}
	return text
}

// verifier checks the files of a log in order.
type verifier struct {
	ctx    context.Context //nolint:containedctx // a verifier exists for one call of Verify
	chain  chain
	report Report
	prev   line
	oldest int64 // number of the first line according to the last rotation
	kept   kept  // state of the .kept file according to the last rotation
	head   line
}

// Verify checks a log and its full files. Other processes may write to the log meanwhile. Verify returns an error if the log cannot be read or
// ctx ends. Problems in the log are in the report.
func Verify(ctx context.Context, path, key string) (Report, error) {
	v := verifier{ctx: ctx, chain: chain{[]byte(key)}, oldest: 1}
	files, sizes, headErr, err := v.open(path)
	if err != nil {
		return Report{}, fmt.Errorf("verify the audit log: %w", err)
	}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	v.report.Files = len(files)
	for i, f := range files {
		if err := v.file(f, sizes[i]); err != nil {
			return Report{}, fmt.Errorf("verify the audit log: %w", err)
		}
		if v.report.Problem != "" {
			return v.report, nil
		}
	}
	v.report.Last, v.report.Hash = v.prev.Seq, v.prev.Hash
	if v.finish(path, headErr); v.report.Problem == "" {
		if err := v.checkKept(path); err != nil {
			return Report{}, fmt.Errorf("verify the audit log: %w", err)
		}
	}
	return v.report, nil
}

// open opens the files and returns their sizes at one moment.
func (v *verifier) open(path string) (files []*os.File, sizes []int64, headErr, err error) {
	head, headErr := os.OpenFile(path+headName, os.O_RDWR, 0)
	if headErr == nil {
		defer head.Close()
		if err := lock(head); err != nil {
			return nil, nil, nil, err
		}
		v.head, headErr = readHead(head)
	}
	all, err := fullFiles(path)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, f := range append(all, full{path: path}) {
		opened, err := os.Open(f.path)
		if errors.Is(err, fs.ErrNotExist) && len(files) > 0 {
			continue // a crash interrupted the creation of the next file
		}
		if err != nil {
			return files, nil, nil, err
		}
		info, err := opened.Stat()
		if err != nil {
			return files, nil, nil, err
		}
		files, sizes = append(files, opened), append(sizes, info.Size())
	}
	return files, sizes, headErr, nil
}

func (v *verifier) file(f *os.File, size int64) error {
	lines := bufio.NewReaderSize(io.LimitReader(f, size), 2*maxLine)
	for number := int64(1); ; number++ {
		if number%1000 == 0 && v.ctx.Err() != nil {
			return context.Cause(v.ctx)
		}
		text, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(text) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		problem := "it has no end: writing it was interrupted, or a part was removed"
		if err == nil {
			problem = v.line(text)
		}
		if problem != "" {
			v.report.Problem, v.report.File, v.report.Line = problem, f.Name(), number
			return nil
		}
	}
}

// line checks a line and returns its problem, or "".
func (v *verifier) line(text []byte) string {
	p, err := parse(text)
	if err != nil {
		return err.Error()
	}
	if problem := v.hash(p); problem != "" {
		return problem
	}
	switch first := v.report.Lines == 0; {
	case first:
		v.report.First = p.Seq
	case p.Seq != v.prev.Seq+1:
		return fmt.Sprintf("it has number %d behind number %d: lines were removed, inserted or moved", p.Seq, v.prev.Seq)
	case p.Prev != v.prev.Hash:
		return "the line before it was changed, or is not the one that was there"
	}
	if p.Type == typeRotated {
		n, _ := p.Details["first"].(float64)
		v.oldest = int64(n)
		n, _ = p.Details["kept"].(float64)
		v.kept = kept{lines: int64(n)}
		v.kept.sum, _ = p.Details["keptHash"].(string)
	}
	if p.Type == typeGap {
		v.report.Gaps++
		if expected, ok := p.Details["expected"]; ok {
			return fmt.Sprintf("lines up to number %v were removed before it was written", expected)
		}
	}
	v.prev = line{p.Seq, p.Hash}
	v.report.Lines++
	if p.Seq == v.head.Seq && p.Hash != v.head.Hash {
		return "it is not the line that the .head file names"
	}
	return ""
}

func (v *verifier) hash(p parsed) string {
	check := v.chain
	switch isKeyed := strings.HasPrefix(p.Hash, keyed); {
	case isKeyed && len(v.chain.key) == 0:
		return "its hash needs the key: set audit.key (HARNESS_AUDIT_KEY)"
	case !isKeyed && len(v.chain.key) > 0:
		if strings.HasPrefix(v.prev.Hash, keyed) {
			return "its hash needs no key, and that of the line before it does"
		}
		v.report.Unkeyed++
		check = chain{}
	}
	if subtle.ConstantTimeCompare([]byte(check.hash(p.body)), []byte(p.Hash)) == 1 {
		return ""
	}
	if len(check.key) > 0 {
		return "it was changed, or written with another key"
	}
	return "it was changed"
}

// finish checks the beginning and the end of the log, which the check of single lines does not cover.
func (v *verifier) finish(path string, headErr error) {
	r := &v.report
	r.File, r.Line = path, 0
	switch {
	case r.Lines > 0 && r.First > v.oldest:
		r.Problem = fmt.Sprintf("the first line has number %d, and %d was kept: lines before it were removed", r.First, v.oldest)
	case r.Lines > 0 && isMissing(headErr), errors.Is(headErr, fs.ErrNotExist): // the .head file is created before the log
		r.Problem = "the .head file beside it is missing or empty, so that it is not known whether lines at the end were removed"
	case headErr != nil && !isMissing(headErr):
		r.Problem = "the .head file beside it is damaged"
	case v.head.Seq > r.Last:
		r.Problem = fmt.Sprintf("the last line has number %d, and there was one with number %d: lines at the end were removed", r.Last, v.head.Seq)
	default:
		r.File = ""
	}
}

// isMissing reports whether err is the error for a missing or empty head file. The head file is created before the first line and written after it.
func isMissing(err error) bool {
	_, empty := errors.AsType[*json.SyntaxError](err)
	return errors.Is(err, fs.ErrNotExist) || empty && strings.Contains(err.Error(), "unexpected end")
}
