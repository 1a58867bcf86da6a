package catalog

import (
	"slices"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/catalog/search"
)

// Limits of the record of tool calls, which is only in memory.
const (
	maxUsageUsers = 1000 // maximum number of users; the user with the oldest search is forgotten
	maxUsageWords = 400  // maximum number of words of one user; if there are more, halve makes room
	maxUsageTools = 8    // maximum number of tools of one word
	usageWindow   = 30 * time.Minute
)

// usage records which tools users called after searches. What is learned from one user's calls is never used for another user. Only the stems of a
// search's words are kept, grouped by the steps of the request.
type usage struct {
	mu    sync.Mutex
	users map[string]*habits
	now   func() time.Time
}

// habits holds the recorded searches and calls of one user.
type habits struct {
	searched time.Time
	steps    [][]string      // steps of the last search
	called   map[string]bool // tools called since the last search
	words    map[string]map[string]float32
}

// searched remembers a search of a user.
func (u *usage) searched(user, query string) {
	steps := search.Steps(query)
	u.mu.Lock()
	defer u.mu.Unlock()
	h := u.users[user]
	if h == nil {
		if len(u.users) >= maxUsageUsers {
			u.forget()
		}
		h = &habits{words: map[string]map[string]float32{}}
		u.users[user] = h
	}
	h.searched, h.steps, h.called = u.now(), steps, map[string]bool{}
}

// forget drops the user who has not searched for the longest time.
func (u *usage) forget() {
	oldest := ""
	for user, h := range u.users {
		if oldest == "" || h.searched.Before(u.users[oldest].searched) {
			oldest = user
		}
	}
	delete(u.users, oldest)
}

// used learns from a successful call of a tool. A tool counts once for each search.
func (u *usage) used(user, tool string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	h := u.users[user]
	if h == nil || h.called[tool] || len(h.called) >= maxHits || u.now().Sub(h.searched) > usageWindow {
		return
	}
	h.called[tool] = true
	for _, step := range h.steps {
		for _, word := range step {
			h.count(word, tool, 1/float32(len(h.steps)))
		}
	}
	if len(h.words) > maxUsageWords {
		h.halve()
	}
}

func (h *habits) count(word, tool string, weight float32) {
	tools := h.words[word]
	if tools == nil {
		tools = map[string]float32{}
		h.words[word] = tools
	}
	if _, known := tools[tool]; !known && len(tools) >= maxUsageTools {
		least := ""
		for other, n := range tools {
			if least == "" || n < tools[least] || n == tools[least] && other < least {
				least = other
			}
		}
		delete(tools, least)
	}
	tools[tool] += weight
}

// halve makes room: it halves all counts and drops each count that was below 1. If too many words are left, it drops random words.
func (h *habits) halve() {
	for word, tools := range h.words {
		for tool, n := range tools {
			if tools[tool] = n / 2; n < 1 {
				delete(tools, tool)
			}
		}
		if len(tools) == 0 {
			delete(h.words, word)
		}
	}
	for word := range h.words { // the order of iteration is random, so random words are dropped, even frequent ones
		if len(h.words) <= maxUsageWords {
			return
		}
		delete(h.words, word)
	}
}

// favours returns the weights of the tools that a user called after searches with the words of a step, by full name. A weight is at most 1.
func (u *usage) favours(user string, step []string) map[string]float32 {
	u.mu.Lock()
	defer u.mu.Unlock()
	h := u.users[user]
	if h == nil {
		return nil
	}
	favoured := map[string]float32{}
	for i, word := range step {
		if slices.Contains(step[:i], word) {
			continue
		}
		all := float32(1) // a prior, so that a single use does not look certain
		for _, n := range h.words[word] {
			all += n
		}
		for tool, n := range h.words[word] {
			favoured[tool] += n / all / float32(len(step))
		}
	}
	return favoured
}

// Used records that a program of a user called a tool successfully.
func (c *Catalog) Used(user string, tool *Tool) {
	if c.usage != nil && user != "" {
		c.usage.used(user, tool.FullName())
	}
}

// LearnUse makes searches prefer tools that programs of the same user called after earlier searches. It must be called before the catalog is used.
func (c *Catalog) LearnUse(now func() time.Time) {
	c.usage = &usage{users: map[string]*habits{}, now: now}
}

// favours returns the function that gives the index a user's preferred tools for each step of a search, or nil if nothing is learned.
func (s *snapshot) favours(u *usage, user string) func(step []string) []search.Favour {
	if u == nil || user == "" {
		return nil
	}
	return func(step []string) (all []search.Favour) {
		for name, weight := range u.favours(user, step) {
			if segment, doc, ok := s.place(name); ok {
				all = append(all, search.Favour{Result: search.Result{Segment: segment, Doc: doc}, Weight: weight})
			}
		}
		return all
	}
}

// place returns the position of a tool in the index.
func (s *snapshot) place(name string) (segment, doc int, ok bool) {
	for i, e := range s.servers {
		if len(name) > len(e.Name)+2 && name[:len(e.Name)] == e.Name {
			if t := e.byName[name[len(e.Name)+2:]]; t != nil && t.FullName() == name {
				return i, slices.IndexFunc(e.Tools, func(other Tool) bool { return other.Name == t.Name }), true
			}
		}
	}
	return 0, 0, false
}
