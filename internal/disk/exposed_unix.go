//go:build unix

package disk

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func owner(path string) int {
	info, err := os.Stat(path)
	if err != nil {
		return -1
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}

func exposed(path string, also []int) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	// In a user namespace without root, the owner of the root directory stands for root.
	mine := append([]int{0, os.Getuid(), owner("/")}, also...)
	places := []string{path}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		places[0] = filepath.Join(dir, filepath.Base(path))
	}
	if target, err := filepath.EvalSymlinks(path); err == nil && target != places[0] {
		places = append(places, target)
	}
	for _, place := range places {
		for at := place; ; at = filepath.Dir(at) {
			if err := changeable(at, place, mine); err != nil {
				return err
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return nil
}

// changeable returns an error if others can change at, which is place or a directory above it.
func changeable(at, place string, mine []int) error {
	info, err := os.Lstat(at)
	if err != nil {
		return nil //nolint:nilerr // nothing exists at the path, or the error occurs again when the path is used
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	what, mode := at, info.Mode()
	if at != place {
		what = fmt.Sprintf("%s, which is in %s", place, at)
	}
	switch shared := at != place && mode&fs.ModeSticky != 0; {
	case !slices.Contains(mine, int(stat.Uid)):
		return fmt.Errorf("the user with the id %d can change %s; chown %s, if you know what is in it", stat.Uid, what, at)
	case mode&fs.ModeSymlink != 0 || shared || mode&0o022 == 0 || !keepsModes(at):
	case mode&0o002 != 0:
		return fmt.Errorf("all users of this machine can change %s; chmod o-w %s", what, at)
	case !private(int(stat.Uid), int(stat.Gid)) && !private(os.Getuid(), int(stat.Gid)): // the second condition is for volumes of Kubernetes with fsGroup
		return fmt.Errorf("the group with the id %d can change %s; chmod g-w %s", stat.Gid, what, at)
	}
	return nil
}

// private reports whether only one user is in a group: the group has the user's name and no other member, as on systems with user-private groups.
func private(uid, gid int) bool {
	group, err := user.LookupGroupId(strconv.Itoa(gid))
	if err != nil {
		return gid == uid
	}
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil || u.Username != group.Name {
		return false
	}
	all, err := os.ReadFile("/etc/group")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(all)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) == 4 && fields[2] == group.Gid && fields[3] != "" && fields[3] != u.Username {
			return false
		}
	}
	return true
}

func shared(info fs.FileInfo) string {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return "belongs to another user"
	}
	if info.Mode().Perm()&0o022 != 0 {
		return "can be written by others"
	}
	return ""
}
