package run

import "testing"

// The limit of one owner covers the arguments in flight of all its runs. Another owner has a limit of its own. Released memory can be held again.
func TestArgs(t *testing.T) {
	t.Parallel()
	a := NewArgs()
	var held []func()
	for range 8 {
		release := a.hold("ann", argsEach/8)
		if release == nil {
			t.Fatal("less than its share is refused")
		}
		held = append(held, release)
	}
	if a.hold("ann", argsUnit) != nil {
		t.Error("more than its share")
	}
	if a.hold("ann", argsUnit-1) == nil {
		t.Error("small arguments count")
	}
	if release := a.hold("bob", argsEach); release == nil {
		t.Error("another owner has no share")
	} else {
		release()
	}
	held[0]()
	if release := a.hold("ann", argsUnit); release == nil {
		t.Error("what has ended makes no room")
	}
}
