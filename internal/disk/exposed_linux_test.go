package disk

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// exposedVar is the environment variable with the directories that the test checks as another user.
const exposedVar = "HARNESS_TEST_EXPOSED"

// A volume of Kubernetes with fsGroup belongs to root, and may be changed by the group of the harness, which has no other member. A volume that another group
// may change is refused.
func TestExposedVolume(t *testing.T) {
	const id = 12345 // id of a user and of a group without names
	if dirs := os.Getenv(exposedVar); dirs != "" {
		for dir := range strings.SplitSeq(dirs, ":") {
			fmt.Println(Exposed(dir))
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root makes directories of other users")
	}
	var dirs []string
	for _, group := range []int{id, id + 1} {
		dir, err := os.MkdirTemp("/tmp", "exposed") // the directories above t.TempDir are hidden from other users
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		if err := os.Chown(dir, 0, group); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o775|os.ModeSetgid); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestExposedVolume$")
	cmd.Dir, cmd.Env = "/", append(os.Environ(), exposedVar+"="+strings.Join(dirs, ":"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	out, err := cmd.Output()
	want := fmt.Sprintf("<nil>\nthe group with the id %d can change %s; chmod g-w %[2]s\n", id+1, dirs[1])
	if err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("got %v\n%s\nwant %s", err, out, want)
	}
}
