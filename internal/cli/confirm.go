package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/telemetry"
)

// maxTries is the maximum number of attempts to enter a passphrase.
const maxTries = 3

// secretLine asks the user at a terminal for a text without echo.
func (a *app) secretLine(ctx context.Context, question string) (string, error) {
	k := a.keyboard()
	if k == nil {
		return "", usage(errors.New("a passphrase is asked on a terminal only, never taken from an argument, a variable, a file or a pipe: run this command yourself in a terminal"))
	}
	to := a.Stderr
	if a.stderr.terminal == nil {
		to = k
	}
	text, read, err := k.secret(ctx, func() { fmt.Fprint(to, question) })
	if read {
		fmt.Fprintln(to)
	}
	return text, err
}

// confirm asks the user to confirm an action with the passphrase. what describes the action. confirm returns a function that signs the action, or nil
// if no confirmation is set up.
func (a *app) confirm(ctx context.Context, h harness, what string) (approval.Sign, error) {
	p := h.Presence()
	needed, err := p.Required(ctx)
	if err != nil || !needed {
		return nil, err
	}
	if _, err := approval.LoadSealedKey(p.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, usage(a.noKey(ctx, p))
	}
	if keys, err := p.Keys(ctx); err != nil || len(keys) > 1 {
		return nil, cmp.Or(err, usage(fmt.Errorf("the key in %s is not the one that signs approvals of the store %s; %s says more", p.Dir, a.config.Store.Name(), a.commandLine("doctor"))))
	}
	return a.unlock(ctx, p, what)
}

// unlock asks for the passphrase until the passphrase opens the key or maxTries attempts have failed. what describes the confirmed action.
func (a *app) unlock(ctx context.Context, p *approval.Presence, what string) (approval.Sign, error) {
	for try := 1; ; try++ {
		passphrase, err := a.secretLine(ctx, fmt.Sprintf("Passphrase, to %s: ", what))
		if err != nil {
			return nil, err
		}
		sign, err := p.Unlock(passphrase)
		switch {
		case err == nil:
			return sign, nil
		case !errors.Is(err, approval.ErrPassphrase):
			return nil, usage(err)
		case try == maxTries:
			return nil, usage(fmt.Errorf("%w; nothing was changed", err))
		}
		fmt.Fprintln(a.Stderr, "That is not the passphrase.")
	}
}

// noKey returns an error that says why there is no key to sign with, and what the user can do.
func (a *app) noKey(ctx context.Context, p *approval.Presence) error {
	stored, err := p.Stored(ctx)
	if err == nil && stored != nil {
		return fmt.Errorf("approvals of the store %s are signed by the key %s, and %s has no %s: run the command with the configuration of the directory that has it",
			a.config.Store.Name(), approval.Fingerprint(stored), p.Dir, approval.ConfirmKeyFile)
	}
	return fmt.Errorf("approvals.confirm is %s, and there is no passphrase yet: harness approvals setup", a.config.Approvals.Confirm)
}

type approvalsSetupCmd struct{}

func (approvalsSetupCmd) Help() string {
	return `Sets the passphrase by which a person confirms approvals. Without one, whatever runs as this user can approve calls: an agent with a shell
approves its own. From then on approvals, API keys beyond one user's, reviews of tool definitions and changes of the policy ask for it on a terminal.

Where there is a passphrase, the command asks for it and sets another one; what was approved stays approved. A forgotten passphrase cannot be recovered;
docs/SECURITY.md says how to begin anew, and where that shows.

Example:
  harness approvals setup`
}

func (approvalsSetupCmd) Run(ctx context.Context, a *app, cfg *config.Config, h harness) error {
	p := h.Presence()
	sealed, err := approval.LoadSealedKey(p.Dir)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err != nil && !fresh {
		return usage(err)
	}
	old := ""
	if fresh {
		if stored, err := p.Stored(ctx); err != nil {
			return err
		} else if stored != nil {
			return usage(a.noKey(ctx, p))
		}
	} else if old, err = a.opens(ctx, p); err != nil {
		return err
	}
	passphrase, err := a.newPassphrase(ctx)
	if err != nil {
		return err
	}
	change := "passphrase changed"
	if fresh {
		change = "created"
		if sealed, err = approval.NewSealedKey(passphrase, a.Now()); err == nil {
			err = os.MkdirAll(p.Dir, 0o700)
		}
	} else {
		err = sealed.Change(old, passphrase)
	}
	if err == nil {
		err = sealed.Save(p.Dir, fresh)
	}
	if err != nil {
		return fmt.Errorf("keep the key that signs approvals: %w", err)
	}
	if err := p.Anchor(ctx, sealed.Public); err != nil {
		return err
	}
	sign, err := p.Unlock(passphrase)
	if err != nil {
		return err
	}
	if err := h.Confirmation().Confirm(ctx, sign); err != nil {
		return err
	}
	print := approval.Fingerprint(sealed.Public)
	a.presenceChange(ctx, cfg, change, print)
	file := filepath.Join(p.Dir, approval.ConfirmKeyFile)
	return a.answer(map[string]string{"key": print, "file": file, "change": change},
		"Approvals ask for this passphrase from now on. The key %s that it opens is in %s; keep a copy with your backups.\n", print, file)
}

// opens asks for the current passphrase until a passphrase opens the key, and returns it. It gives up after maxTries attempts.
func (a *app) opens(ctx context.Context, p *approval.Presence) (passphrase string, err error) {
	for try := 1; ; try++ {
		if passphrase, err = a.secretLine(ctx, "Passphrase of now: "); err != nil {
			return "", err
		}
		_, err := p.Unlock(passphrase)
		switch {
		case err == nil:
			return passphrase, nil
		case !errors.Is(err, approval.ErrPassphrase) || try == maxTries:
			return "", usage(err)
		}
		fmt.Fprintln(a.Stderr, "That is not the passphrase.")
	}
}

// newPassphrase asks for a passphrase twice.
func (a *app) newPassphrase(ctx context.Context) (string, error) {
	for {
		first, err := a.secretLine(ctx, fmt.Sprintf("New passphrase, at least %d characters: ", approval.MinPassphrase))
		if err != nil {
			return "", err
		}
		if err := approval.CheckPassphrase(first); err != nil {
			fmt.Fprintln(a.Stderr, err)
			if first == "" {
				return "", usage(errors.New("nothing was set up"))
			}
			continue
		}
		again, err := a.secretLine(ctx, "Once more: ")
		if err != nil {
			return "", err
		}
		if first == again {
			return first, nil
		}
		fmt.Fprintln(a.Stderr, "These were two different passphrases.")
	}
}

// presenceChange records in the audit log that the key that signs approvals has changed.
func (a *app) presenceChange(ctx context.Context, cfg *config.Config, change, fingerprint string) {
	a.record(ctx, cfg, telemetry.Event{
		Type: telemetry.KeyChange, Severity: telemetry.Medium, Details: map[string]any{"key": "approvals", "fingerprint": fingerprint, "change": change},
	})
}

type policyConfirmCmd struct{}

func (policyConfirmCmd) Help() string {
	return `Once approvals ask for a passphrase (harness approvals setup), a policy that a person has not confirmed allows nothing by itself: every call that it
allows asks. Any change of the sections policy, quarantine and approvals, of mcp.forms and of what pii finds has to be confirmed, for each configuration file.

Example:
  harness policy show && harness policy confirm`
}

func (policyConfirmCmd) Run(ctx context.Context, a *app, cfg *config.Config, h harness) error {
	sign, err := a.confirm(ctx, h, "confirm the policy of "+policyPlace(cfg))
	if err != nil {
		return err
	}
	if sign == nil {
		return usage(errors.New("there is nothing to confirm, because approvals ask for no passphrase: harness approvals setup"))
	}
	if err := h.Confirmation().Confirm(ctx, sign); err != nil {
		return err
	}
	a.record(ctx, cfg, telemetry.Event{
		Type: telemetry.KeyChange, Severity: telemetry.Medium, Details: map[string]any{"key": "policy", "change": "confirmed", "file": cfg.File},
	})
	return a.answer(map[string]string{"confirmed": cfg.File}, "confirmed the policy of %s\n", policyPlace(cfg))
}

// policyPlace returns where the policy comes from, as text for people.
func policyPlace(cfg *config.Config) string {
	if cfg.File == "" {
		return "the defaults and the environment"
	}
	return cfg.File
}

// commandLine returns a command for the user to type, with the --config of this command.
func (a *app) commandLine(rest string) string {
	if a.flags.Config == "" {
		return "harness " + rest
	}
	file := a.flags.Config
	if strings.Trim(file, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./\\:+@%=,") != "" {
		file = "'" + strings.ReplaceAll(file, "'", `'\''`) + "'"
	}
	return "harness --config " + file + " " + rest
}

// presenceFindings returns findings about whether a person has to confirm approvals, and whether the key file, the store and the audit log agree
// about the key.
func presenceFindings(ctx context.Context, cfg *config.Config, h harness) (all []finding) {
	const name = "approvals"
	p := h.Presence()
	keys, err := p.Keys(ctx)
	switch {
	case err != nil:
		return []finding{found(name, "failed", err.Error(), "put "+approval.ConfirmKeyFile+" back from a backup")}
	case len(keys) == 0 && lastApprovalKey(cfg) != "":
		return []finding{found(name, "failed", "the audit log records the key "+lastApprovalKey(cfg)+" that signs approvals, and there is none: it was removed",
			"see Confirmed approvals in docs/SECURITY.md")}
	case len(keys) == 0 && cfg.Approvals.Confirm != "none":
		return []finding{found(name, "failed", "approvals.confirm is "+cfg.Approvals.Confirm+", and there is no passphrase: nothing can be approved", "harness approvals setup")}
	case len(keys) == 0:
		return []finding{found(name, "warning", "no passphrase: whatever runs as this user, such as an agent with a shell, can approve calls", "harness approvals setup")}
	case len(keys) > 1:
		all = append(all, found(name, "failed", fmt.Sprintf("%s has the key %s, the store %s: one of them was replaced, and nothing counts as approved",
			filepath.Join(p.Dir, approval.ConfirmKeyFile), approval.Fingerprint(keys[0]), approval.Fingerprint(keys[1])), "see Confirmed approvals in docs/SECURITY.md"))
	default:
		all = append(all, found(name, "ok", "confirmed by passphrase, key "+approval.Fingerprint(keys[0]), ""))
	}
	if recorded := lastApprovalKey(cfg); recorded != "" && recorded != approval.Fingerprint(keys[0]) {
		all = append(all, found(name, "failed", fmt.Sprintf("the audit log records the key %s, and the key is %s: it was replaced", recorded, approval.Fingerprint(keys[0])),
			"see Confirmed approvals in docs/SECURITY.md"))
	}
	if confirmed, err := h.Confirmation().Confirmed(ctx); err == nil && !confirmed {
		all = append(all, found("policy", "warning", "no person has confirmed the policy of "+policyPlace(cfg)+" as it is now, so every call asks", "harness policy show && harness policy confirm"))
	}
	if registered, err := p.SecurityKeys(ctx); err == nil && len(registered) == 0 && cfg.Approvals.Confirm == "webauthn" {
		all = append(all, found(name, "warning", "approvals.confirm is webauthn, and no security key is registered: the dashboard approves nothing", "harness approvals security-keys add"))
	}
	if unsigned := unsignedApprovals(ctx, h); unsigned > 0 {
		all = append(all, found(name, "warning", fmt.Sprintf("%d approvals in the store have no valid signature, or one of a removed security key, and count as not decided", unsigned), "harness audit verify; harness approvals list --status approved"))
	}
	return all
}

// unsignedApprovals returns the number of recent approvals that are newer than the key and have no valid signature.
func unsignedApprovals(ctx context.Context, h harness) (n int) {
	sealed, err := approval.LoadSealedKey(h.Presence().Dir)
	if err != nil {
		return 0
	}
	all, _, err := h.Runs().Approvals(ctx, auth.Local(), approval.Filter{Status: approval.Approved, Limit: 1000})
	if err != nil {
		return 0
	}
	for _, r := range all {
		if r.DecidedAt != nil && r.DecidedAt.After(sealed.Created) && errors.Is(h.Presence().Check(ctx, r), approval.ErrUnconfirmed) {
			n++
		}
	}
	return n
}

// lastApprovalKey returns the fingerprint of the key that signs approvals, as the audit log recorded it last. It returns "" if the log does not
// mention such a key.
func lastApprovalKey(cfg *config.Config) (fingerprint string) {
	if cfg.Audit.File == "" {
		return ""
	}
	files, _ := filepath.Glob(cfg.Audit.File + ".[0-9]*") // a wildcard in the path keeps rotated files from being found
	for _, name := range append(files, cfg.Audit.File) {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(text) {
			if !bytes.Contains(line, []byte(`"fingerprint"`)) {
				continue
			}
			var e struct {
				Type    string `json:"eventType"`
				Details struct {
					Key         string `json:"key"`
					Fingerprint string `json:"fingerprint"`
				} `json:"details"`
			}
			if json.Unmarshal(line, &e) == nil && e.Type == string(telemetry.KeyChange) && e.Details.Key == "approvals" {
				fingerprint = e.Details.Fingerprint
			}
		}
	}
	return fingerprint
}
