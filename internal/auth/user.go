package auth

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// MaxUser is the length of a user id, in characters.
const MaxUser = 100

// CleanUser returns nil for text that can be a user id: 1 to MaxUser characters of valid UTF-8, none of them a control,
// format or separator character that would make two ids look alike. Everything else is allowed and kept as it is, for
// replacing characters would make one user of two. The directories of users have names of their own (files.DirName).
func CleanUser(id string) error {
	switch {
	case id == "":
		return errors.New("the user id is empty")
	case !utf8.ValidString(id):
		return errors.New("the user id is not valid UTF-8")
	case utf8.RuneCountInString(id) > MaxUser:
		return fmt.Errorf("the user id is longer than %d characters", MaxUser)
	}
	for _, r := range id {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return fmt.Errorf("the character %U is not allowed in a user id", r)
		}
	}
	return nil
}
