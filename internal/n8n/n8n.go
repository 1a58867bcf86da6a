// Package n8n offers an instance of n8n as servers inside this process: its nodes, templates, workflows and executions.
//
// The servers use the public API (/api/v1) with an API key. The descriptions of nodes come from a directory of packages, or from the instance
// after a login as a user. If the API has a request for a change, the tool sends only this request. A tool that needs several requests reports
// what was done and what was not. If the outcome of a change is unknown, the error is a [mcpclient.WithinError], so that the gate reports the
// call as in doubt.
package n8n

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/mcpclient"
)

// Options configures an [Instance]. URL is required.
type Options struct {
	URL             string // address of the instance; a trailing /api/v1 is ignored
	APIKey          string
	Nodes           string // a node_modules directory; if empty, Email and Password are used to log in at the instance
	Email, Password string

	Templates       string // folder of template workflows; empty if there is none
	TemplateLibrary string // address of a public library of templates; empty if none is used

	WebhookURL      string            // base address of webhooks; empty means URL
	WebhookSecurity string            // mode of allowed webhook addresses: SecurityStrict, SecurityModerate or SecurityDisabled; empty means SecurityModerate
	WebhookHeaders  map[string]string // headers that the bridge's tools send, such as Authorization
	CallTimeout     time.Duration     // time limit of a call; a call stops waiting for an execution before this limit; 0 if unknown

	CacheDir string // directory for descriptions of nodes; if empty, they are not cached
	Version  string // version of this program
}

// Instance is an instance of n8n. It is safe for concurrent use.
type Instance struct {
	opts    Options
	api     *api
	nodes   *nodeSource
	folder  *templateFolder
	library *library
	hooks   *hooks
	bridge  *bridge

	changing keyed // locks for workflows that are being changed
}

// New returns an Instance. It sends no request.
func New(opts Options) (*Instance, error) {
	base, err := address(opts.URL)
	if err != nil {
		return nil, fmt.Errorf("n8n.url: %w", err)
	}
	hook := base
	if opts.WebhookURL != "" {
		if hook, err = address(opts.WebhookURL); err != nil {
			return nil, fmt.Errorf("n8n.webhookUrl: %w", err)
		}
	}
	opts.Version = cmp.Or(opts.Version, "dev")
	opts.WebhookSecurity = cmp.Or(opts.WebhookSecurity, SecurityModerate)
	i := &Instance{opts: opts, api: newAPI(base, opts.APIKey)}
	i.nodes = newNodeSource(i.opts, base)
	i.folder = &templateFolder{dir: opts.Templates}
	if opts.TemplateLibrary != "" {
		public, err := address(opts.TemplateLibrary)
		if err != nil {
			return nil, fmt.Errorf("n8n.templateLibrary: %w", err)
		}
		i.library = newLibrary(public)
	}
	i.hooks = newHooks(hook, opts.WebhookSecurity)
	i.bridge = newBridge(i)
	return i, nil
}

// Configs returns the configurations of the servers for a manager, ordered by name.
func (i *Instance) Configs() []mcpclient.Config {
	secrets := []string{i.opts.APIKey, i.opts.Password}
	for _, value := range i.opts.WebhookHeaders {
		secrets = append(secrets, value, value[strings.LastIndexByte(value, ' ')+1:]) // the value itself, and the value without a scheme such as Bearer
	}
	var configs []mcpclient.Config
	all := i.Servers()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		configs = append(configs, mcpclient.Config{Name: name, Within: all[name], Secrets: secrets, Timeout: i.opts.CallTimeout})
	}
	return configs
}

// Aliases returns the prefix by which tools of this package's servers can also be called, such as n8n_create_workflow. It returns nil for the
// bridge and for servers of other packages.
func Aliases(s mcpclient.Server) []string {
	if s.Transport == mcpclient.TransportBuiltIn && strings.HasPrefix(s.Name, "n8n-") && s.Name != BridgeServer {
		return []string{"n8n"}
	}
	return nil
}

// address parses the address of an instance and removes the suffix of its API.
func address(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(strings.TrimRight(text, "/"), "/api/v1"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an http or https address", text)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u, nil
}

// Servers returns the servers by name. The bridge is included only if there is a key, because it lists workflows when it connects.
func (i *Instance) Servers() map[string]mcpclient.Within {
	all := map[string]mcpclient.Within{}
	for _, s := range []*server{i.nodesServer(), i.templatesServer(), i.workflowsServer(), i.executionsServer()} {
		s.version = i.opts.Version
		all[s.name] = s
	}
	if i.opts.APIKey != "" {
		all[BridgeServer] = i.bridge
	}
	return all
}
