package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// page is a document: its text without blocks of code, the anchors of its headings, and the documents that it links to. Paths are relative to the root of the
// repository.
type page struct {
	text    string
	anchors []string
	links   []string // targets with their anchors
}

var (
	blocks   = regexp.MustCompile("(?sm)^```.*?^```")
	inline   = regexp.MustCompile("`[^`\n]*`")
	headings = regexp.MustCompile(`(?m)^#+ (.+)$`)
	linked   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	unspoken = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchor returns the anchor that GitHub gives a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(unspoken.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// pages reads all documents for readers.
func pages(t *testing.T) map[string]page {
	t.Helper()
	files, err := filepath.Glob("*.md")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	names := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	for _, file := range files {
		names = append(names, "docs/"+file)
	}
	all := map[string]page{}
	for _, name := range names {
		raw, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		p := page{text: string(raw)}
		prose := blocks.ReplaceAllString(p.text, "")
		for _, h := range headings.FindAllStringSubmatch(prose, -1) {
			p.anchors = append(p.anchors, anchor(h[1]))
		}
		for _, l := range linked.FindAllStringSubmatch(inline.ReplaceAllString(prose, ""), -1) {
			if strings.Contains(l[1], "://") || strings.HasPrefix(l[1], "mailto:") {
				continue
			}
			target, place, _ := strings.Cut(l[1], "#")
			if target == "" {
				target = name
			} else {
				target = path.Join(path.Dir(name), target)
			}
			p.links = append(p.links, strings.TrimSuffix(target+"#"+place, "#"))
		}
		all[name] = p
	}
	return all
}

// TestLinks checks that the target and the anchor of every relative link exist.
func TestLinks(t *testing.T) {
	t.Parallel()
	all, links := pages(t), 0
	for name, p := range all {
		for _, link := range p.links {
			links++
			target, place, _ := strings.Cut(link, "#")
			if _, err := os.Stat("../" + target); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, target)
				continue
			}
			if to, document := all[target]; place != "" && (!document || !slices.Contains(to.anchors, place)) {
				t.Errorf("%s links to %s, and there is no such section", name, link)
			}
		}
		for i, a := range p.anchors {
			if slices.Contains(p.anchors[:i], a) {
				t.Errorf("%s has two headings with the anchor %s", name, a)
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links", links)
	}
}

// clicks returns the number of links that lead from README.md to each document.
func clicks(all map[string]page) map[string]int {
	distance, next := map[string]int{"README.md": 0}, []string{"README.md"}
	for len(next) > 0 {
		from := next[0]
		next = next[1:]
		for _, link := range all[from].links {
			target, _, _ := strings.Cut(link, "#")
			if _, known := distance[target]; !known {
				distance[target] = distance[from] + 1
				next = append(next, target)
			}
		}
	}
	return distance
}

// TestEveryDocumentIsNear checks that two clicks lead from README.md to every document.
func TestEveryDocumentIsNear(t *testing.T) {
	t.Parallel()
	all := pages(t)
	distance := clicks(all)
	for name := range all {
		if n, reached := distance[name]; !reached || n > 2 {
			t.Errorf("%s is not within two clicks from README.md (%d)", name, n)
		}
	}
}

// questions are what people come with, and where the answer stands: a document with a section, and words that the section has to contain.
var questions = []struct {
	who, question, answer string
	words                 []string
}{
	{"operator", "How do I install it on Debian?", "docs/OPERATIONS.md#install", []string{"apt install", "SHA256SUMS"}},
	{"operator", "How do I start it at boot, behind a proxy with TLS?", "docs/DEPLOYMENT.md#systemd", []string{"ExecStart", "Restart="}},
	{"operator", "How do I put a reverse proxy with TLS before it?", "docs/DEPLOYMENT.md#reverse-proxy-with-tls", []string{"proxy_buffering", "server.trustedProxies"}},
	{"operator", "How large must the machine be?", "docs/DEPLOYMENT.md#sizing", []string{"processor", "memory"}},
	{"operator", "How do I run it in Kubernetes?", "docs/OPERATIONS.md#kubernetes", []string{"helm install", "ReadWriteMany"}},
	{"operator", "How do I back it up, and what is not in the backup?", "docs/OPERATIONS.md#backup-and-restore", []string{"harness backup", "--with-keys"}},
	{"operator", "How do I restore?", "docs/RUNBOOK.md#restore", []string{"harness restore", "pii.key"}},
	{"operator", "How do I upgrade several replicas?", "docs/OPERATIONS.md#many-machines", []string{"Rolling upgrades", "SIGTERM"}},
	{"operator", "How do I go back to the old version?", "docs/RUNBOOK.md#rollback", []string{"bak"}},
	{"operator", "An API key has leaked. What now?", "docs/RUNBOOK.md#a-key-has-leaked", []string{"harness keys revoke", "harness audit verify"}},
	{"operator", "How do I rotate the key of personal data?", "docs/RUNBOOK.md#changing-keys", []string{"HARNESS_PII_KEY=NEW,OLD"}},
	{"operator", "The alert HarnessTasksLate fires.", "docs/RUNBOOK.md#harnesstaskslate", []string{"server.workers"}},
	{"operator", "What does harness_sandbox_runner_events_total count?", "docs/METRICS.md#runners", []string{"harness_sandbox_runner_events_total", "claimed"}},
	{"operator", "What does exit code 3 mean?", "docs/TROUBLESHOOTING.md#exit-codes", []string{"`3`"}},
	{"operator", "Who may do what over HTTP?", "docs/API_EXAMPLES.md#keys-and-servers", []string{"admin"}},
	{"operator", "How many runs a day does one PostgreSQL take?", "docs/SCALE.md#what-is-exceeded-first-and-what-to-change", []string{"million runs a day"}},
	{"operator", "How do I have calls approved by a person?", "docs/POLICY.md#that-a-person-approves", []string{"harness approvals setup"}},
	{"operator", "Is the audit log whole?", "docs/CONFIGURATION.md#audit", []string{"harness audit verify"}},
	{"developer", "How do I run my first program?", "docs/QUICK_START.md#the-first-run", []string{"harness exec"}},
	{"developer", "How do I add an MCP server?", "docs/QUICK_START.md#add-a-server", []string{"harness servers add"}},
	{"developer", "How do I call a tool in a program?", "docs/QUICK_START.md#tools", []string{"import * as", "callMCPTool"}},
	{"developer", "How do I connect Claude Code or Cursor?", "docs/GATEWAY.md", []string{"--print-config"}},
	{"developer", "How do I send a task over HTTP and follow it?", "docs/API_EXAMPLES.md#tasks-in-the-background", []string{"events"}},
	{"developer", "Which events does a stream have?", "docs/EVENTS.md", []string{"run.ended"}},
	{"developer", "How do I verify a webhook?", "docs/API_EXAMPLES.md#webhooks", []string{"X-Harness-Signature"}},
	{"developer", "What does call_limit mean?", "docs/TROUBLESHOOTING.md#errors-of-programs", []string{"call_limit", "sandbox.maxCalls"}},
	{"developer", "Why does my program see [EMAIL_1]?", "docs/PRIVACY.md#tokens", []string{"token"}},
	{"developer", "How do I save a program as a skill?", "docs/SKILLS.md#from-a-run-to-a-skill", []string{"harness skills new"}},
	{"developer", "How do I have ten files processed in parallel?", "docs/EXAMPLES.md#calls-in-parallel", []string{"Promise.all"}},
	{"developer", "How do I keep a large result out of the model's context?", "docs/EXAMPLES.md#a-large-result-stays-out-of-the-context", []string{"/workspace"}},
	{"developer", "How do I add an endpoint?", "CONTRIBUTING.md#an-endpoint", []string{"internal/api/route.go"}},
	{"developer", "How do I add a detector of personal data?", "CONTRIBUTING.md#a-detector-of-personal-data", []string{"internal/pii/detect/kinds.go"}},
	{"developer", "I come from the TypeScript template. Where is DockerSandbox?", "docs/MIGRATION.md#files", []string{"DockerSandbox", "internal/sandbox"}},
	{"evaluator", "Why code in place of tool calls?", "docs/PHILOSOPHY.md", []string{"harness bench tokens"}},
	{"evaluator", "How do I check what is claimed?", "docs/EVIDENCE.md#check-a-claim", []string{"make evidence ARGS=", "-only"}},
	{"evaluator", "What do the claims leave out?", "docs/EVIDENCE.md", []string{"Not shown"}},
	{"evaluator", "How many tokens does it save?", "docs/PHILOSOPHY.md#what-it-saves", []string{"tokens"}},
	{"evaluator", "Is the sandbox a wall, and which?", "docs/SECURITY.md#walls-around-a-program", []string{"seccomp", "Landlock"}},
	{"evaluator", "What does it not protect from?", "docs/SECURITY.md#what-no-wall-stops", []string{"Faults of the kernel"}},
	{"evaluator", "Which personal data is found?", "docs/PRIVACY.md#what-is-found", []string{"EMAIL"}},
	{"evaluator", "How does it do on AgentDojo?", "docs/AGENTDOJO.md#result", []string{"strict"}},
	{"evaluator", "How does it compare with others, and where are they better?", "docs/COMPARISON.md#where-others-are-better", []string{"faster"}},
	{"evaluator", "How is it built?", "docs/ARCHITECTURE.md#one-tool-call-from-guest-code-to-a-server-and-back", []string{"gate"}},
	{"evaluator", "What are its limits?", "docs/LIMITS.md", []string{"per owner"}},
}

// TestQuestionsAreAnswered checks that the answer to each question stands where the list says, within two clicks from README.md.
func TestQuestionsAreAnswered(t *testing.T) {
	t.Parallel()
	all := pages(t)
	distance := clicks(all)
	if len(questions) < 40 {
		t.Errorf("only %d questions", len(questions))
	}
	for _, q := range questions {
		name, place, _ := strings.Cut(q.answer, "#")
		if n, reached := distance[name]; !reached || n > 2 {
			t.Errorf("%s: %s: %s is not within two clicks from README.md", q.who, q.question, name)
			continue
		}
		text, found := sectionAt(all[name].text, place)
		if !found {
			t.Errorf("%s: %s: there is no %s", q.who, q.question, q.answer)
			continue
		}
		for _, word := range q.words {
			if !strings.Contains(text, word) {
				t.Errorf("%s: %s: %s does not say %q", q.who, q.question, q.answer, word)
			}
		}
	}
}

// sectionAt returns a section with its sections below, or the whole document if place is empty.
func sectionAt(document, place string) (string, bool) {
	if place == "" {
		return document, document != ""
	}
	masked := blocks.ReplaceAllStringFunc(document, func(block string) string { return strings.Repeat("x", len(block)) }) // comments of shells look like headings
	for _, h := range regexp.MustCompile(`(?m)^(#+) (.+)$`).FindAllStringSubmatchIndex(masked, -1) {
		if anchor(masked[h[4]:h[5]]) != place {
			continue
		}
		end := len(document)
		if next := regexp.MustCompile(`(?m)^#{1,` + string(rune('0'+h[3]-h[2])) + `} `).FindStringIndex(masked[h[1]:]); next != nil {
			end = h[1] + next[0]
		}
		return document[h[0]:end], true
	}
	return "", false
}
