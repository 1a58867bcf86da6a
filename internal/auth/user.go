package auth

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// MaxUser is the maximum length of a user id in characters.
const MaxUser = 100

// CleanUser returns nil for a valid user id: 1 to MaxUser characters of valid UTF-8 without control, format and line separator characters,
// which can make two ids look alike. An id is never changed, because that could split or merge users.
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
