package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// areas are the parts of the document, in its order. Each has a file of figures.
var areas = []string{"performance", "context", "security", "privacy", "durability", "fidelity"}

// claims are what claims.yaml has.
type claims struct {
	// Factor is how many widths of its committed interval a figure may be worse before -against reports it.
	Factor float64 `yaml:"factor"`
	Claims []claim `yaml:"claims"`
}

// claim is one sentence that a command shows.
type claim struct {
	ID    string `yaml:"id"`
	Area  string `yaml:"area"`
	Claim string `yaml:"claim"`
	// Command is for a shell, in the root of the repository. Claims with the same command share its runs.
	Command string `yaml:"command"`
	// Package and Tests replace Command: the tests are executed by go test.
	Package string   `yaml:"package"`
	Tests   []string `yaml:"tests"`
	Tier    string   `yaml:"tier"` // tier of the sandbox in which the tests execute programs; empty: none, or the default
	// JSON is the way to the figure in JSON output. In a list, a step is an index or the name of an object; otherwise it is a key.
	JSON []string `yaml:"json"`
	// Match has the figure in its first group, if the output is not JSON.
	Match  string  `yaml:"match"`
	Unit   string  `yaml:"unit"`
	Better string  `yaml:"better"` // lower or higher
	Budget float64 `yaml:"budget"` // value that the figure must not be worse than; 0: none
	Repeat int     `yaml:"repeat"` // number of runs; 0: 1
	// Timeout bounds one run. The default is 2 minutes, that of tests 10.
	Timeout time.Duration `yaml:"timeout"`
	// Needs is the environment variable without which the claim cannot be shown, such as the folder of a checkout.
	Needs    string `yaml:"needs"`
	NotShown string `yaml:"notShown"`
}

var testName = regexp.MustCompile(`^Test\w+$`)

// load reads and checks the claims, and sets their defaults.
func load(text []byte) (*claims, error) {
	var c claims
	if err := yaml.UnmarshalWithOptions(text, &c, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("read claims.yaml: %w", err)
	}
	if c.Factor <= 0 {
		return nil, fmt.Errorf("claims.yaml: factor must be positive")
	}
	seen := map[string]bool{}
	for i := range c.Claims {
		if err := c.Claims[i].check(); err != nil {
			return nil, fmt.Errorf("claims.yaml: %q: %w", c.Claims[i].ID, err)
		}
		if seen[c.Claims[i].ID] {
			return nil, fmt.Errorf("claims.yaml: two claims are named %q", c.Claims[i].ID)
		}
		seen[c.Claims[i].ID] = true
	}
	return &c, nil
}

func (c *claim) check() error {
	c.Claim, c.NotShown = strings.TrimSpace(c.Claim), strings.TrimSpace(c.NotShown)
	c.Repeat = max(c.Repeat, 1)
	switch {
	case c.ID == "" || c.Claim == "" || c.NotShown == "":
		return fmt.Errorf("a claim needs id, claim and notShown")
	case !slices.Contains(areas, c.Area):
		return fmt.Errorf("unknown area %q: one of %v", c.Area, areas)
	case (c.Command == "") == (len(c.Tests) == 0):
		return fmt.Errorf("either command or tests")
	}
	if len(c.Tests) > 0 {
		return c.checkTests()
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Minute
	}
	if c.Better != "lower" && c.Better != "higher" {
		return fmt.Errorf("better must be lower or higher")
	}
	if (len(c.JSON) == 0) == (c.Match == "") {
		return fmt.Errorf("either json or match")
	}
	if c.Match != "" {
		if e, err := regexp.Compile(c.Match); err != nil || e.NumSubexp() != 1 {
			return fmt.Errorf("match must be an expression with one group: %w", err)
		}
	}
	return nil
}

func (c *claim) checkTests() error {
	if c.Package == "" {
		return fmt.Errorf("tests need a package")
	}
	for _, name := range c.Tests {
		if !testName.MatchString(name) {
			return fmt.Errorf("%q is no name of a test", name)
		}
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Minute
	}
	c.Unit, c.Better = "tests", "higher"
	env := ""
	if c.Tier != "" && c.Package == "./internal/wiring" {
		env = "HARNESS_TEST_TIER=" + c.Tier + " "
	}
	c.Command = fmt.Sprintf("%sgo test -json -count 1 -timeout %s -run '^(%s)$' %s", env, c.Timeout, strings.Join(c.Tests, "|"), c.Package)
	return nil
}

// selected returns the claims of an area, or the one with this id; all for an empty name.
func (c *claims) selected(name string) []claim {
	return slices.DeleteFunc(slices.Clone(c.Claims), func(c claim) bool { return name != "" && c.Area != name && c.ID != name })
}

// byArea returns the claims of an area.
func (c *claims) byArea(area string) []claim {
	return slices.DeleteFunc(slices.Clone(c.Claims), func(c claim) bool { return c.Area != area })
}
