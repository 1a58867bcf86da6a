package audit

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// keptName is the suffix of the file with the lines that are kept when their files are removed.
const keptName = ".kept"

// routine are the types of events that everyday use causes in great numbers. When the oldest file is removed, its lines of these types are removed
// too. All other lines, which record permissions and decisions, are kept in the .kept file.
var routine = []string{
	"code_execution", "tool_call", "auth_failure", "rate_limit", "pii_access", "policy_decision", "approval_requested", typeRotated,
}

// kept is the state of the .kept file. The first line of the newest log file records it.
type kept struct {
	lines int64
	last  int64  // number of the last line
	sum   string // hash over the hashes of all lines in order
	end   int64  // size of the file up to the end of the last whole line
}

func (k *kept) add(p parsed, size int) {
	k.lines++
	k.last = p.Seq
	sum := sha256.Sum256([]byte(k.sum + p.Hash))
	k.sum = plain + hex.EncodeToString(sum[:])
	k.end += int64(size)
}

// eachLine calls f with every whole line of a file and the result of parsing it.
func eachLine(r io.Reader, f func(text []byte, p parsed, err error) error) error {
	lines := bufio.NewReaderSize(r, 2*maxLine)
	for {
		text, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
		p, err := parse(text)
		if err := f(text, p, err); err != nil {
			return err
		}
	}
}

// keep appends lines of old files to the .kept file, before these files are removed. It leaves out routine lines. After a crash during a rotation,
// it also leaves out the lines that the .kept file already has.
func (l *Log) keep(old []full) (k kept, err error) {
	f, err := os.OpenFile(l.opt.Path+keptName, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return k, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := eachLine(f, func(text []byte, p parsed, err error) error {
		if err == nil {
			k.add(p, len(text))
		}
		return err
	}); err != nil {
		return k, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	if err := f.Truncate(k.end); err != nil {
		return k, err
	}
	for _, o := range old {
		if err := keepOf(f, o.path, &k); err != nil {
			return k, err
		}
	}
	return k, f.Sync()
}

// keepOf appends the lines of one file that are not routine.
func keepOf(to *os.File, path string, k *kept) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	return eachLine(from, func(text []byte, p parsed, err error) error {
		if err != nil || slices.Contains(routine, p.Type) || p.Seq <= k.last {
			return nil //nolint:nilerr // a malformed line is dropped; Verify has reported it for as long as the file existed
		}
		if _, err := to.WriteAt(text, k.end); err != nil {
			return err
		}
		k.add(p, len(text))
		return nil
	})
}

// checkKept checks the .kept file against what the newest rotation recorded.
func (v *verifier) checkKept(path string) error {
	r := &v.report
	f, err := os.Open(path + keptName)
	if errors.Is(err, fs.ErrNotExist) {
		if v.kept.lines > 0 {
			r.File, r.Problem = path+keptName, fmt.Sprintf("it is missing, and had %d lines of files that were removed", v.kept.lines)
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var found kept
	if err := eachLine(f, func(text []byte, p parsed, err error) error {
		var problem string
		switch {
		case r.Problem != "":
			return nil
		case err != nil:
			problem = err.Error()
		case p.Seq <= found.last:
			problem = fmt.Sprintf("it has number %d behind number %d: lines were inserted or moved", p.Seq, found.last)
		default:
			problem = v.alone(p)
		}
		if found.add(p, len(text)); problem == "" && found.lines == v.kept.lines && found.sum != v.kept.sum {
			problem = "it, or a line before it, is not the one that was kept"
		}
		if problem != "" {
			r.File, r.Line, r.Problem = f.Name(), found.lines, problem
		}
		return nil
	}); err != nil {
		return err
	}
	if r.Kept = found.lines; r.Problem == "" && found.lines < v.kept.lines {
		r.File, r.Problem = f.Name(), fmt.Sprintf("it has %d lines, and there were %d: lines at the end were removed", found.lines, v.kept.lines)
	}
	return nil
}

// alone checks the hash of a line, but not the link to the line before it.
func (v *verifier) alone(p parsed) string {
	check := v.chain
	if !strings.HasPrefix(p.Hash, keyed) {
		check = chain{}
	} else if len(check.key) == 0 {
		return "its hash needs the key: set audit.key (HARNESS_AUDIT_KEY)"
	}
	if check.hash(p.body) != p.Hash {
		return "it was changed"
	}
	return ""
}
