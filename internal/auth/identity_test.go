package auth

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/files"
)

func TestMay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		has                   []Role
		user, approver, admin bool
	}{
		{nil, false, false, false},
		{[]Role{User}, true, false, false},
		{[]Role{Approver}, true, true, false},
		{[]Role{Admin}, true, true, true},
		{[]Role{User, Approver, Admin}, true, true, true},
		{[]Role{"root"}, false, false, false},
	} {
		i := Identity{Roles: tt.has}
		for role, want := range map[Role]bool{User: tt.user, Approver: tt.approver, Admin: tt.admin} {
			if got := i.May(role); got != want {
				t.Errorf("%v may %s: %t", tt.has, role, got)
			}
			if err := i.Require(role); (err == nil) != want || !want && !errors.Is(err, ErrForbidden) {
				t.Errorf("%v requires %s: %v", tt.has, role, err)
			}
		}
	}
}

func TestActFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		id   Identity
		user string
		ok   bool
	}{
		{Identity{User: "alice", Roles: []Role{User}}, "alice", true},
		{Identity{User: "alice", Roles: []Role{User}}, "Alice", false},
		{Identity{User: "alice", Roles: []Role{User}}, "bob", false},
		{Identity{User: "alice", Roles: []Role{Approver}}, "bob", false},
		{Identity{User: "alice", Roles: []Role{Admin}}, "bob", true},
		{Identity{Roles: []Role{User}}, "bob", true},
		{Identity{}, "bob", false},
		{Identity{User: "alice"}, "alice", false},
	} {
		err := tt.id.ActFor(tt.user)
		if (err == nil) != tt.ok || !tt.ok && !errors.Is(err, ErrForbidden) {
			t.Errorf("%+v acts for %s: %v", tt.id, tt.user, err)
		}
	}
}

func TestCleanUser(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "alice@example.com", "../../etc", "Ünïcödé 用户", strings.Repeat("ü", MaxUser)} {
		if err := CleanUser(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", "a\x00", "a\nb", "a\x7f", "a\u0085", "a\u202e", "a\u200b", "a\u2028", "\xff", strings.Repeat("ü", MaxUser+1)} {
		if err := CleanUser(id); err == nil {
			t.Errorf("%q is accepted", id)
		}
	}
}

// User ids that the original system would have merged have different directories.
func TestCleanUsersHaveDirectories(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, id := range []string{"alice", "Alice", "alice!", "alice?", "al ice", "alice@example.com", "alice-example-com", "..", "con", strings.Repeat("ü", MaxUser)} {
		if err := CleanUser(id); err != nil {
			t.Fatal(err)
		}
		dir, err := files.DirName(id)
		if err != nil {
			t.Errorf("user %q has no directory: %v", id, err)
		}
		if other, ok := seen[strings.ToLower(dir)]; ok {
			t.Errorf("%q and %q share %q", id, other, dir)
		}
		seen[strings.ToLower(dir)] = id
	}
}

func ExampleIdentity_ActFor() {
	id := Identity{Principal: "key_5zj", User: "alice", Roles: []Role{User}}
	fmt.Println(id.ActFor("alice"))
	fmt.Println(id.ActFor("bob"))
	// Output:
	// <nil>
	// not allowed: the credential belongs to another user
}
