package origin

import (
	"container/list"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// Origins that are no tools.
const (
	User     = "user"     // texts of the user: the task, inputs, files
	Code     = "code"     // text of a program, and nothing else
	Computed = "computed" // nothing that is known
)

// MaxOrigins is how many tools are remembered of a value. Further ones are unknown.
const MaxOrigins = 8

// Session remembers the values of a run, or of the runs of one session. It is safe for concurrent use.
type Session struct {
	memory *Memory
	key    key

	// What memory.mu guards.
	uses    int
	keep    bool
	dropped bool
	bytes   int64
	idle    *list.Element // place among the idle sessions; nil while it is used

	mu    sync.Mutex
	table table
	names names
	lost  bool // values are missing
	bound bool // the table cannot grow: the memory is full
	parts splitter

	filling sync.Mutex
	runs    map[string]bool // runs whose answers the session has
}

// Found is what is known of a value.
type Found struct {
	Said []string // origins of the whole value: User, full names of tools; empty: none
	More bool     // further tools said it, which are not known
	// Parts are the origins of parts of a value whose whole has none.
	Parts []string
	// Complete reports that the session knows all its values. If it does not, a value without an origin may have one.
	Complete bool
}

// Said notes that a tool, or the user, said a JSON text.
func (s *Session) Said(by string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by(by)
	s.parts.json(string(value), maxNested)
}

// SaidText is Said for a text.
func (s *Session) SaidText(by, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by(by)
	s.parts.text(text, maxNested)
}

// by prepares to note the values of an origin.
func (s *Session) by(name string) {
	number := s.names.named(name)
	s.parts.start(s.memory.seed, minOf(name), func(h uint64, _ bool) bool { return s.add(h, number) })
}

// minOf is how many letters parts of a text have at least.
func minOf(by string) int {
	if by == User {
		return 1
	}
	return MinPart
}

// Sent notes that a JSON text is sent to a server.
func (s *Session) Sent(args []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts.start(s.memory.seed, MinPart, s.send)
	s.parts.json(string(args), maxNested)
}

// add notes who said a value. It reports false if nothing more can be noted.
func (s *Session) add(h uint64, by uint16) bool {
	at := s.place(h)
	if at == nil {
		return false
	}
	if *at&sentMark == 0 {
		*at = s.names.add(*at, by)
	} else if is := *at &^ sentMark; by == user {
		*at = s.names.add(is, by) | sentMark
	}
	return true
}

// send marks a value.
func (s *Session) send(h uint64, small bool) bool {
	if small {
		return true
	}
	at := s.place(h)
	if at == nil {
		return false
	}
	*at |= sentMark
	return true
}

// place finds or makes the place of a value; nil if there is no room for it.
func (s *Session) place(h uint64) *uint16 {
	if s.table.full() {
		size := s.table.next()
		if s.bound || !s.memory.take(s, bytesOf(size)) {
			s.lost, s.bound = true, true
			return nil
		}
		before := bytesOf(len(s.table.keys))
		s.table.grow(size)
		s.memory.mu.Lock()
		s.memory.give(s, before)
		s.memory.mu.Unlock()
	}
	return s.table.place(h)
}

// Lose notes that something was said which the session does not know.
func (s *Session) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
}

// Fill has fill add what the session lacks of its earlier runs. known are the runs that it has; fill adds to them. One fill runs at a time.
func (s *Session) Fill(fill func(known map[string]bool)) {
	s.filling.Lock()
	defer s.filling.Unlock()
	fill(s.runs)
}

// Find says what is known of a value, which is a string or the text of a number.
func (s *Session) Find(value string) (f Found) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Complete = !s.lost
	spellings := []string{value}
	if number, err := strconv.ParseFloat(value, 64); err == nil && strings.ContainsAny(value, ".eE") {
		spellings = append(spellings, numeral(number))
	}
	if strings.Contains(value, "%") {
		if plain, err := url.PathUnescape(value); err == nil {
			spellings = append(spellings, plain)
		}
	}
	for _, scheme := range []string{"https://", "http://"} { // a user writes www.example.com
		if len(value) > len(scheme) && strings.EqualFold(value[:len(scheme)], scheme) {
			spellings = append(spellings, strings.TrimSuffix(value[len(scheme):], "/"))
		}
	}
	var said uint16
	for _, text := range spellings {
		if h := s.parts.hash(s.memory.seed, text); h != 0 {
			said = s.names.join(said, s.table.get(h)&^sentMark)
		}
	}
	if f.Said, f.More = s.names.of(said); said != 0 {
		return f
	}
	var parts uint16
	s.parts.start(s.memory.seed, MinPart, func(h uint64, _ bool) bool {
		parts = s.names.join(parts, s.table.get(h)&^sentMark)
		return true
	})
	s.parts.text(value, 0)
	f.Parts, _ = s.names.of(parts)
	return f
}

// Normal is a text without what does not count in values.
func Normal(text string) string { return string(normalise(nil, text)) }
