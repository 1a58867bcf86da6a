package n8n

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"mcp-code-exec-harness/internal/catalog/search"
)

//go:embed nodewords.txt
var nodeWords string

// usualWords returns words that people use for the work of a node, by the short name of the node.
var usualWords = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(nodeWords) {
		if name, words, is := strings.Cut(strings.TrimSpace(line), ": "); is && !strings.HasPrefix(line, "//") {
			all[name] = words
		}
	}
	return all
})

// nodeIndex finds nodes for requests in words. It uses the catalog's search index. Each node is a segment with one document, and the document's
// server is the display name of the node.
type nodeIndex struct {
	names []string // node names, by index of the segment
	parts []bool   // whether the node is a part, by index of the segment, see isPart
	known map[string]bool
	named map[string][]string // node names by product name
	index *search.Index
}

func onceIndex(ts *nodeTypes) func() *nodeIndex {
	return sync.OnceValue(func() *nodeIndex {
		x := &nodeIndex{known: map[string]bool{}, named: map[string][]string{}}
		var segments []*search.Segment
		for _, name := range ts.names {
			t := ts.current(name)
			if t.Hidden {
				continue
			}
			x.names, x.parts = append(x.names, name), append(x.parts, t.isPart())
			x.known[name] = true
			if !slices.Contains(t.Codex.Categories, "Core Nodes") && !t.isPart() {
				for _, product := range slices.Compact([]string{product(t.short()), product(t.DisplayName)}) {
					if !everyday[product] {
						x.named[product] = append(x.named[product], name)
					}
				}
			}
			segments = append(segments, search.NewSegment([]search.Doc{{
				Key: name, Name: t.short(), Title: t.title(), Server: t.DisplayName, Description: t.Description,
				Params: t.actions(), Context: strings.Join(t.Codex.Categories, " ") + " " + fmt.Sprint(t.Codex.Subcategories),
			}}))
		}
		x.index = search.NewIndex(segments)
		return x
	})
}

// actions returns the names of a node's operations.
func (t *nodeType) actions() string {
	var b strings.Builder
	for _, p := range t.Properties {
		if p.Name != "resource" && p.Name != "operation" && p.Name != "event" && p.Name != "events" {
			continue
		}
		for _, o := range p.Options {
			b.WriteString(o.Name + " ")
		}
	}
	return b.String()
}

// partPenalty is the number of places by which a part of another node moves down if the request mentions no parts. Examples of parts are the tools
// and the model of an agent.
const partPenalty = 8

// search returns the nodes that fit a request, the best first.
func (x *nodeIndex) search(query string, limit int) []string {
	type placed struct {
		name  string
		place int
	}
	var found []placed
	words := strings.FieldsFunc(strings.ToLower(query), notLetter)
	ofParts := slices.ContainsFunc(words, func(word string) bool { return partWords[word] })
	called := x.calledIn(words)
	ofEvents := slices.ContainsFunc(words, func(word string) bool { return eventWords[word] })
	for place, r := range x.index.Search(query, limit+2*partPenalty) {
		if x.parts[r.Segment] && !ofParts {
			place += partPenalty
		}
		name := x.names[r.Segment]
		if slices.Contains(called, name) {
			place -= maxCalled
		}
		// If the request is about an event, the trigger of a node comes before the node.
		if trigger := name + "Trigger"; ofEvents && x.known[trigger] {
			found = append(found, placed{trigger, place})
		}
		found = append(found, placed{name, place})
	}
	for _, name := range called { // including those that are not among the index's results
		found = append(found, placed{name, -1})
	}
	if slices.ContainsFunc(words, func(word string) bool { return timeWords[word] }) && x.known[scheduleType] {
		found = append(found, placed{scheduleType, 1})
	}
	for n, f := range found {
		action, is := strings.CutSuffix(f.name, "Trigger")
		at := slices.IndexFunc(found, func(other placed) bool { return other.name == action })
		if is && !ofEvents && at > n {
			found[n].name, found[at].name = action, f.name
		}
	}
	slices.SortStableFunc(found, func(a, b placed) int { return a.place - b.place })
	out := []string{}
	for _, f := range found {
		if len(out) < limit && !slices.Contains(out, f.name) {
			out = append(out, f.name)
		}
	}
	return out
}

// everyday are names of products that are also ordinary words in requests.
var everyday = setOf("affinity box bubble chat code copper drift flow form line linear matrix medium orbit segment twist wise")

// maxCalled is the number of places by which a node moves up if the request contains its name.
const maxCalled = 100

// product returns the name of a node's product, in one word.
func product(name string) string { return strings.TrimSuffix(fold(name), "trigger") }

// calledIn returns the nodes of products whose names, of one to three words, occur in a request.
func (x *nodeIndex) calledIn(words []string) (names []string) {
	for n := range words {
		for last := n + 1; last <= min(n+3, len(words)); last++ {
			for _, name := range x.named[strings.Join(words[n:last], "")] {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

func notLetter(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// partWords are words in requests that may refer to parts of agents and chains.
var partWords = setOf("agent agents ai chain chat embedding embeddings gpt language llm llms memory model models parser retriever similar splitter tool tools vector")

// timeWords are words that mean that something is repeated. A request with a time word also finds the schedule trigger, because the index ignores
// some time words and gives others little weight.
var timeWords = setOf("cron daily every hourly monthly nightly periodically schedule scheduled weekly")

const scheduleType = "n8n-nodes-base.scheduleTrigger"

// eventWords are words in requests that may refer to the start of a workflow.
var eventWords = setOf("after arrive arrives comes incoming new react receive received receives start starts trigger triggers when whenever")

func setOf(words string) map[string]bool {
	all := map[string]bool{}
	for _, word := range strings.Fields(words) {
		all[word] = true
	}
	return all
}

// title returns the names by which people may call a node. It includes the name as one word, for products such as WhatsApp, which the index splits into words.
func (t *nodeType) title() string {
	name := strings.TrimSuffix(fold(t.short()), "trigger")
	return t.DisplayName + " " + name + " " + strings.Join(t.Codex.Alias, " ") + " " + usualWords()[t.short()]
}

// isPart reports whether a node is a part of another one, that is, has no output of the type main.
func (t *nodeType) isPart() bool {
	outputs, is := t.Outputs.([]any)
	if !is || len(outputs) == 0 {
		return false
	}
	return !slices.ContainsFunc(outputs, func(v any) bool {
		o, _ := v.(object)
		return v == "main" || text(o, "type") == "main"
	})
}
