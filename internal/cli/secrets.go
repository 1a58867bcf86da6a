package cli

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"mcp-code-exec-harness/internal/clients"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/secrets"
	"mcp-code-exec-harness/internal/startup"
	"mcp-code-exec-harness/internal/trust"
)

// secrets returns the store of the secrets that the user gave on command lines.
func (a *app) secrets() *secrets.Store {
	s := &secrets.Store{Keyring: a.Keyring, Bound: func(name, file string) {
		fmt.Fprintf(a.Stderr, "harness: the secret %s belongs to %s from now on: no other file gets it\n", name, file)
	}}
	if dir := config.UserDir(a.environment()); dir != "" {
		s.File = filepath.Join(dir, "secrets.json")
	}
	return s
}

// editor returns an editor of configuration files, which stay trusted after a change.
func (a *app) editor() config.Editor { return config.Editor{Trust: a.trustStore()} }

// addServer writes a server into the configuration. It moves the secrets of the server to the keyring or the user's file of secrets, and deletes
// those of a replaced server.
func (a *app) addServer(file string, s clients.Server, replace bool) error {
	store := a.secrets()
	var kept, where []string
	err := config.HideSecrets(s.MCPServer, func(what, value string) (string, error) {
		var random [4]byte
		_, _ = rand.Read(random[:]) // rand.Read does not fail
		what = strings.Trim(strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
				return r
			}
			return '-'
		}, what), "-")
		name := s.Name + "." + what + "-" + hex.EncodeToString(random[:])
		name = strings.ReplaceAll(name, " ", "-")
		place, err := store.Put(name, plainDollars(value), trust.Path(file))
		if err == nil {
			kept, where = append(kept, name), append(where, fmt.Sprintf("%s: its %s is in %s; harness.yaml has ${secret:%s}", s.Name, what, place, name))
			if placeholder().MatchString(value) {
				where = append(where, fmt.Sprintf("warning: the %s of %s looks like the placeholder of an example, not like a secret: add the server again with the right value and --replace", what, s.Name))
			}
		}
		return name, err
	})
	former := config.SecretsOf(file, s.Name)
	if err == nil {
		err = a.editor().AddServer(file, s.MCPServer, replace)
	}
	if err != nil {
		return errors.Join(err, forget(store, kept))
	}
	for _, line := range where {
		fmt.Fprintln(a.Stderr, line)
	}
	for _, note := range s.Notes {
		fmt.Fprintf(a.Stderr, "%s: %s\n", s.Name, note)
	}
	return forget(store, former)
}

// placeholder matches texts that stand for a secret in examples.
var placeholder = startup.Regexp(`(?i)^(?:(?:bearer|basic|token)\s+)?(?:` +
	`.*\b(?:your|my|insert|replace|enter|paste)(?:[-_ ].*|$)|.*your[-_ ]?(?:own)?[-_ ]?(?:api|access|secret|token|key|password).*|` +
	`<.*>|\{\{.*\}\}|\[.*\]|x{3,}|\*{3,}|.*(?:\.{3,}|…|x{6,})|change[-_ ]?me.*|placeholder|todo|(?:.*[-_ ])?(?:goes[-_ ])?here|` +
	`(?:api|access|secret)?[-_ ]?(?:key|token|secret|password))$`)

// plainDollars replaces double dollar signs by single ones, because secrets are not expanded.
func plainDollars(value string) string { return strings.ReplaceAll(value, "$$", "$") }

// forget deletes secrets that are no longer used.
func forget(store *secrets.Store, names []string) (err error) {
	for _, name := range names {
		err = errors.Join(err, store.Delete(name))
	}
	return err
}
