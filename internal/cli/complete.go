package cli

import (
	"context"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/spf13/cobra"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/task"
)

// completeTimeout is the maximum time that a shell waits for the lookup of names.
const completeTimeout = 2 * time.Second

const (
	// maxCompletions is the maximum number of runs, tasks or sessions that are offered, beginning with the newest.
	maxCompletions = 50
	// maxSimilar is the maximum number of names that a misspelt name is compared with.
	maxSimilar = 1000
)

// mirror converts a command of Kong, which parses command lines, to a command of Cobra, which provides the completion scripts of
// shells, their protocol and the manual pages. The function names returns the values of a positional argument or flag whose tag has
// the key "names"; kind is the value of this key.
func mirror(n *kong.Node, names func(c *cobra.Command, kind string) []cobra.Completion) *cobra.Command {
	text, example, _ := strings.Cut(n.Detail, "Example")
	_, example, _ = strings.Cut(example, ":\n")
	c := &cobra.Command{
		Use: n.Name, Short: n.Help, Long: strings.TrimSpace(n.Help + "\n\n" + text), Example: example, Hidden: n.Hidden,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true}, DisableAutoGenTag: true,
	}
	for _, p := range n.Positional {
		c.Use += " " + strings.ToUpper(strings.NewReplacer("<", "", ">", "").Replace(p.Summary())) // the generator of manual pages would take <name> for an HTML tag
	}
	flags := c.Flags()
	if n.Type == kong.ApplicationNode {
		flags = c.PersistentFlags()
	}
	for _, f := range n.Flags {
		if f.Name == "help" || f.Hidden {
			continue
		}
		short := ""
		if f.Short != 0 {
			short = string(f.Short)
		}
		if f.IsBool() && f.Target.Kind() == reflect.Bool {
			flags.BoolP(f.Name, short, false, f.Help)
			continue
		}
		flags.StringP(f.Name, short, f.Default, f.Help)
		if f.IsBool() { // the value of a boolean flag is optional
			flags.Lookup(f.Name).NoOptDefVal = f.Default
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, completion([]*kong.Value{f.Value}, names)) // the flag exists
	}
	c.ValidArgsFunction = completion(n.Positional, names)
	for _, child := range n.Children {
		c.AddCommand(mirror(child, names))
	}
	if len(n.Children) == 0 {
		c.Run = func(*cobra.Command, []string) {} // Cobra neither completes nor documents commands that cannot run
	}
	return c
}

// completion offers the values of the next positional argument after args. The last positional argument may be repeatable.
func completion(values []*kong.Value, names func(c *cobra.Command, kind string) []cobra.Completion) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(values) == 0 || len(args) >= len(values) && !values[len(values)-1].IsCumulative() {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		v := values[min(len(args), len(values)-1)]
		var all []cobra.Completion
		switch {
		case v.Enum != "":
			all = v.EnumSlice()
		case v.Tag.Has("names"):
			all = names(c, v.Tag.Get("names"))
		default:
			return nil, cobra.ShellCompDirectiveDefault
		}
		return slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, begun) }), cobra.ShellCompDirectiveNoFileComp
	}
}

// complete writes the words that may complete a command line, for the completion of a shell.
func (a *app) complete(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	a.Stderr = io.Discard // the shell is in the middle of a line
	a.Keyring = nil       // a keyring could ask the user to unlock it
	defer a.close()
	root := mirror(a.model, func(c *cobra.Command, kind string) []cobra.Completion {
		a.flags.Config, _ = c.Flags().GetString("config")
		return a.names(ctx, kind, maxCompletions)
	})
	root.SetArgs(a.Args)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	if root.ExecuteContext(ctx) != nil {
		return exitUsage
	}
	return exitDone
}

// names lists the names of a kind that are known without starting a server. If the configuration or the store cannot be read, it lists
// nothing, and the command itself reports the error. most limits the number of runs, tasks or sessions, of which the newest are listed.
func (a *app) names(ctx context.Context, kind string, most int) (all []cobra.Completion) {
	cfg, err := a.load()
	if err != nil {
		return nil
	}
	if kind == "servers" {
		for _, s := range cfg.MCPServers {
			all = append(all, s.Name)
		}
		return all
	}
	h, err := a.open(ctx)
	if err != nil {
		return nil
	}
	switch kind {
	case "tools":
		for _, t := range h.Catalog().Tools() {
			all = append(all, cobra.CompletionWithDesc(t.FullName(), cut(firstLine(t.Description), shownText)))
		}
	case "runs":
		infos, _, _ := h.Runs().List(ctx, auth.Local(), journal.Filter{Limit: most})
		for _, r := range infos {
			all = append(all, cobra.CompletionWithDesc(r.ID, r.Started.Local().Format(time.DateTime)+" "+r.Status))
		}
	case "tasks":
		if tasks, err := h.Tasks(taskOptions{}); err == nil {
			found, _, _ := tasks.Tasks(ctx, task.Filter{Limit: most})
			for _, t := range found {
				all = append(all, cobra.CompletionWithDesc(t.ID, cut(firstLine(t.Task), shownText)))
			}
		}
	case "schedules":
		if tasks, err := h.Tasks(taskOptions{}); err == nil {
			found, _ := tasks.Schedules(ctx, "")
			for _, s := range found[:min(most, len(found))] {
				all = append(all, cobra.CompletionWithDesc(s.ID, cut(firstLine(s.Task), shownText)))
			}
		}
	case "sessions":
		if tasks, err := h.Tasks(taskOptions{}); err == nil {
			found, _, _ := tasks.Sessions(ctx, task.SessionFilter{UserID: defaultUser, Limit: most})
			for _, s := range found {
				all = append(all, s.ID)
			}
		}
	case "keys":
		if keys, err := h.Keys(); err == nil {
			found, _ := keys.List(ctx)
			for _, k := range found {
				all = append(all, cobra.CompletionWithDesc(k.ID, k.Name))
			}
		}
	case "skills":
		if saved, err := h.Skills(); err == nil {
			found, _ := saved.List(defaultUser)
			for _, s := range found {
				all = append(all, cobra.CompletionWithDesc(s.Name, cut(firstLine(s.Description), shownText)))
			}
		}
	}
	return all
}

// like returns a hint about a misspelt name: similar names, if there are any, followed by the text in otherwise.
func (a *app) like(ctx context.Context, kind, name, otherwise string) string {
	var all []string
	for _, c := range a.names(ctx, kind, maxSimilar) {
		known, _, _ := strings.Cut(c, "\t") // drops the description after the tab
		all = append(all, known)
	}
	return meant(ident.Closest(name, all), otherwise)
}

type completionCmd struct {
	Shell string `arg:"" help:"The shell: ${enum}." enum:"bash,zsh,fish,powershell"`
}

func (completionCmd) Help() string {
	return `Prints a script that completes commands, flags, and names of tools, servers, runs, tasks, keys and skills.

Examples:
  source <(harness completion bash)
  harness completion bash > ~/.local/share/bash-completion/completions/harness
  harness completion zsh > "${fpath[1]}/_harness"
  harness completion fish > ~/.config/fish/completions/harness.fish
  harness completion powershell | Out-String | Invoke-Expression`
}

func (c *completionCmd) Run(a *app) error {
	root := mirror(a.model, nil)
	var script strings.Builder
	var err error
	switch c.Shell {
	case "bash":
		err = root.GenBashCompletionV2(&script, true)
	case "zsh":
		err = root.GenZshCompletion(&script)
	case "fish":
		err = root.GenFishCompletion(&script, true)
	case "powershell":
		err = root.GenPowerShellCompletionWithDesc(&script)
	}
	if err != nil {
		return err
	}
	return a.answer(map[string]string{"shell": c.Shell, "script": script.String()}, "%s", script.String())
}
